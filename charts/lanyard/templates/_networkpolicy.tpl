{{/* Openings that several network policies have. */}}

{{- define "lanyard.networkpolicy.metrics" -}}
- ports:
    - {port: 2112, protocol: TCP}
  from:
    - namespaceSelector:
        {{- toYaml .Values.networkPolicy.monitoring.namespaceSelector | nindent 8 }}
      podSelector:
        {{- toYaml .Values.networkPolicy.monitoring.podSelector | nindent 8 }}
{{- end }}

{{/* The way to the API server: to anywhere while its addresses are not known. */}}
{{- define "lanyard.networkpolicy.apiServer" -}}
{{- if .Values.networkPolicy.apiServerCIDRs -}}
- to:
    {{- range .Values.networkPolicy.apiServerCIDRs }}
    - ipBlock: {cidr: {{ . | quote }}}
    {{- end }}
{{- else -}}
- {}
{{- end }}
{{- end }}

{{- define "lanyard.networkpolicy.dns" -}}
- ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
{{- end }}

{{/* lanyard.callers: the namespaces that the Deployment is called from by name, as JSON. */}}
{{- define "lanyard.callers" -}}
{{- $namespaces := include "lanyard.watched" . | fromJsonArray }}
{{- range .Values.connector.deployment.publishers | default list }}{{ $namespaces = append $namespaces (first (splitList "/" .)) }}{{ end }}
{{- sortAlpha $namespaces | uniq | toJson }}
{{- end }}
