{{/* What the chart's tests need. */}}

{{/* lanyard.test.calls: whether the chart's test sends its event to the Deployment ("true" or ""); see tests/event.yaml. */}}
{{- define "lanyard.test.calls" -}}
{{- $d := .Values.connector.deployment }}
{{- if and (not .Values.connector.socket.enabled) $d.enabled .Values.certManager.enabled (not (hasKey $d "publishers")) }}true{{ end }}
{{- end }}
