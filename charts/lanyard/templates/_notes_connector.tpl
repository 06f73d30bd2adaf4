{{/* What the notes say of the connector. */}}
{{- define "lanyard.notes.connector" -}}
{{- $auth := .Values.global.platformConnectorAuth }}
{{- $s := .Values.connector.socket }}{{- $d := .Values.connector.deployment }}
{{- if $s.enabled }}
A connector runs on every node, on socket {{ $s.hostDir }}/nvsentinel.sock. Publishers mount that directory read-only. Its pods
mount host directories: namespace {{ .Release.Namespace }} must admit them
(kubectl label namespace {{ .Release.Namespace }} pod-security.kubernetes.io/enforce=privileged).
Beside a running NVSentinel, whose connector has the same socket, set connector.socket.enabled: false or another
connector.socket.hostDir: ours does not start where another one listens.
{{ end }}
{{- if and $s.enabled $s.sinks.forward.enabled (not $s.sinks.forward.hostSocket) }}
The nodes' connectors hand events to {{ include "lanyard.forward.address" . }}.
{{- if include "lanyard.forward.told" . }} Their pods wait until the exchange has
written ConfigMap {{ .Values.jobs.caConfigMap.name }} of namespace {{ .Release.Namespace }}, some seconds after its own start.
{{- else }} Their pods wait until ConfigMap
{{ $s.sinks.forward.caConfigMap | default .Values.jobs.caConfigMap.name }} of namespace {{ .Release.Namespace }} holds the CA certificate under ca.crt.
{{- if and (include "lanyard.forward.own" .) .Values.certManager.enabled }} Where nothing else keeps it there:

  kubectl -n {{ .Release.Namespace }} get secret lanyard-connector-tls -o jsonpath='{.data.ca\.crt}' | base64 -d > ca.crt
  kubectl -n {{ .Release.Namespace }} create configmap {{ $s.sinks.forward.caConfigMap | default .Values.jobs.caConfigMap.name }} --from-file=ca.crt
{{- end }}
{{- end }}
{{ end }}
{{- if and $d.enabled $d.sinks.store.enabled (eq $d.sinks.store.driver "postgres") }}
The Deployment's pods wait for Secret {{ $d.sinks.store.dsnSecret.name }} with the data source name under {{ $d.sinks.store.dsnSecret.key }}.
{{ end }}
{{- if not (or $s.enabled $d.enabled) }}
No connector is installed: publishers get tokens and report to another one, such as NVSentinel's own. Otherwise set
connector.socket.enabled or connector.deployment.enabled.
{{ end }}
{{- if $d.enabled }}
Publishers may call lanyard-connector.{{ .Release.Namespace }}.svc:50051 over TLS, each with its token.
{{ if not (hasKey $d "publishers") }}
WARNING: connector.deployment.publishers is not given, so every pod with a publisher's token may call: whoever can create pods
in a namespace of publishers can have any node drained that such a pod can run on. Name the accounts, or [] for none but the
cross-node list.
{{ end }}
{{- if or (eq ($auth.mode | default "enforce") "audit") $auth.failOpenOnUnavailable }}
global.platformConnectorAuth.mode and failOpenOnUnavailable are settings of the nodes' connectors: the Deployment always
enforces.
{{ end }}
{{- if and $d.sinks.store.enabled (eq $d.sinks.store.driver "sqlite") (not ($d.sinks.store.persistence | default dict).enabled) }}
WARNING: each replica of the Deployment keeps its events in a volume that goes with the pod, and a batch that was sent to two
replicas is stored twice. Use connector.deployment.sinks.store.driver: postgres, or one replica with persistence.
{{ end }}
{{- end }}
{{- if and (or $s.enabled $d.enabled) $auth.enabled }}
Chart and images move together: a new image does not start with an old chart's config.json, which lacks
enableNodeBindingAuth.
{{- if eq ($auth.mode | default "enforce") "audit" }}
Node binding is in mode audit: when platform_connector_auth_violations_total stays at zero, remove
global.platformConnectorAuth.mode.
{{- end }}
{{ end }}
{{- end }}
