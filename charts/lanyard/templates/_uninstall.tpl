{{/*
What is left of a release that helm does not know of, since programs have made it: cert-manager's Secrets with our certificates,
the exchange's copies of the CA certificate, its Lease. Others' Secrets and ConfigMaps are not among them.
*/}}

{{/* lanyard.swept.secrets: names of Secrets in the release's namespace, as JSON. */}}
{{- define "lanyard.swept.secrets" -}}
{{- $secrets := list }}
{{- if .Values.certManager.enabled }}
{{- range include "lanyard.leaves" . | fromJsonArray }}{{ $secrets = append $secrets (printf "%s-tls" .) }}{{ end }}
{{- if empty .Values.certManager.issuerRef }}{{ $secrets = append $secrets "lanyard-ca" }}{{ end }}
{{- end }}
{{- sortAlpha $secrets | toJson }}
{{- end }}

{{/* lanyard.swept.configmaps: the namespaces that have a copy of the CA certificate, as JSON. */}}
{{- define "lanyard.swept.configmaps" -}}
{{- if and (include "lanyard.exchange.on" .) .Values.jobs.caConfigMap.manage }}{{ include "lanyard.exchange.told" . }}{{ else }}[]{{ end }}
{{- end }}

{{/* lanyard.swept.lease: whether there is a Lease ("true" or ""). */}}
{{- define "lanyard.swept.lease" -}}
{{- if and (include "lanyard.exchange.on" .) (eq .Values.exchange.store.driver "postgres") }}true{{ end }}
{{- end }}

{{/* lanyard.swept: all of them, as `webhook sweep` takes them, as JSON. */}}
{{- define "lanyard.swept" -}}
{{- $all := list }}
{{- range include "lanyard.swept.secrets" . | fromJsonArray }}{{ $all = append $all (printf "Secret/%s/%s" $.Release.Namespace .) }}{{ end }}
{{- range include "lanyard.swept.configmaps" . | fromJsonArray }}{{ $all = append $all (printf "ConfigMap/%s/%s" . $.Values.jobs.caConfigMap.name) }}{{ end }}
{{- if include "lanyard.swept.lease" . }}{{ $all = append $all (printf "Lease/%s/lanyard-exchange" .Release.Namespace) }}{{ end }}
{{- $all | toJson }}
{{- end }}

{{/* lanyard.leaves: the servers that have a certificate of cert-manager's, as JSON. */}}
{{- define "lanyard.leaves" -}}
{{- $leaves := list "lanyard-webhook" }}
{{- if .Values.connector.deployment.enabled }}{{ $leaves = append $leaves "lanyard-connector" }}{{ end }}
{{- if include "lanyard.exchange.on" . }}{{ $leaves = append $leaves "lanyard-exchange" }}{{ end }}
{{- $leaves | toJson }}
{{- end }}
