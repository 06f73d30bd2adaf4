{{/* Names are fixed: the configurations and policies are cluster-wide, so there is one Lanyard in a cluster. */}}

{{- define "lanyard.labels" -}}
app.kubernetes.io/name: lanyard
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
app.kubernetes.io/part-of: lanyard
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") | quote }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/*
lanyard.labels.beside: lanyard.labels, and labels of one kind of object or of one program's pods, which win over those of commonLabels: a
key twice in one mapping is no YAML. Takes (dict "root" ROOT "beside" MAP).
*/}}
{{- define "lanyard.labels.beside" -}}
{{- $all := dict -}}
{{- range $key, $value := .root.Values.commonLabels }}{{ $_ := set $all $key $value }}{{ end -}}
{{- range $key, $value := .beside }}{{ $_ := set $all $key $value }}{{ end -}}
{{- $values := merge (dict "commonLabels" $all) (omit .root.Values "commonLabels") -}}
{{- include "lanyard.labels" (dict "Release" .root.Release "Chart" .root.Chart "Values" $values) }}
{{- end }}

{{/* The labels that select the webhook's pods; they never change, since a Deployment's selector cannot. */}}
{{- define "lanyard.webhook.selector" -}}
app.kubernetes.io/part-of: lanyard
app.kubernetes.io/component: webhook
{{- end }}

{{/* The same for the connector's pods, of either role. */}}
{{- define "lanyard.socket.selector" -}}
app.kubernetes.io/part-of: lanyard
app.kubernetes.io/component: connector
{{- end }}

{{- define "lanyard.deployment.selector" -}}
app.kubernetes.io/part-of: lanyard
app.kubernetes.io/component: connector-deployment
{{- end }}

{{- define "lanyard.image" -}}
{{- if .Values.image.digest -}}
{{ printf "%s@%s" .Values.image.repository .Values.image.digest | quote }}
{{- else -}}
{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
{{- end -}}
{{- end }}

{{- define "lanyard.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* lanyard.annotations: the annotations of a Service or a ServiceAccount, or nothing. */}}
{{- define "lanyard.annotations" -}}
{{- with . -}}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end }}

{{/* lanyard.placement: where pods run, and before whom. Takes a program's values. */}}
{{- define "lanyard.placement" -}}
{{- with .priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* What the restricted PodSecurity level asks of every container. */}}
{{- define "lanyard.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* lanyard.fixedUser: whether pods name their user ("true" or ""); values of a chart that had no such key leave it at that. */}}
{{- define "lanyard.fixedUser" -}}
{{- if get (.Values.podSecurity | default (dict "fixedUser" true)) "fixedUser" }}true{{ end }}
{{- end }}

{{- define "lanyard.podSecurity" -}}
runAsNonRoot: true
{{- if include "lanyard.fixedUser" . }}
runAsUser: 65532
runAsGroup: 65532
{{- end }}
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* The Secret with the certificate of the connector's Deployment. */}}
{{- define "lanyard.deployment.tlsSecret" -}}
{{- if .Values.certManager.enabled }}lanyard-connector-tls{{ else }}{{ .Values.certs.connectorSecret }}{{ end }}
{{- end }}

{{/* The Secret with the webhook's certificate. */}}
{{- define "lanyard.webhook.tlsSecret" -}}
{{- if .Values.certManager.enabled }}lanyard-webhook-tls{{ else }}{{ .Values.certs.existingSecret }}{{ end }}
{{- end }}
