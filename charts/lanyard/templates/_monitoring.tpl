{{/*
lanyard.monitors: how a program's metrics are found by Prometheus' operator, by its pods or by its Services, whichever is on. A switch
holds for all programs: an alert whose program is not scraped fires for ever, or never. Takes (dict "root" . "name" NAME "selector"
TEMPLATE); the Services bear the same labels as the pods, and one of them has the port.
*/}}
{{- define "lanyard.monitors" -}}
{{- range $kind, $endpoints := dict "PodMonitor" "podMetricsEndpoints" "ServiceMonitor" "endpoints" }}
{{- $v := get $.root.Values.monitoring (untitle $kind) }}
{{- if $v.enabled }}
apiVersion: monitoring.coreos.com/v1
kind: {{ $kind }}
metadata:
  name: {{ $.name }}
  namespace: {{ $.root.Release.Namespace }}
  labels:
    {{- include "lanyard.labels.beside" (dict "root" $.root "beside" $v.labels) | nindent 4 }}
spec:
  selector:
    matchLabels:
      {{- include $.selector $.root | nindent 6 }}
  {{ $endpoints }}:
    - port: metrics
      interval: {{ $v.interval }}
---
{{- end }}
{{- end }}
{{- end }}
