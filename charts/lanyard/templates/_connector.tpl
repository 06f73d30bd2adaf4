{{/*
What the connector is started with. config.json says who may name which node, and is the file that the seed of the
authentication defines, key by key; the settings files are ours. All three are written with toJson or toYaml: nothing is
spliced in.
*/}}

{{/* lanyard.connector.config: config.json, the same for both roles. */}}
{{- define "lanyard.connector.config" -}}
{{- include "lanyard.validate" . }}
{{- $auth := .Values.global.platformConnectorAuth }}
{{- $config := dict "enableNodeBindingAuth" $auth.enabled }}
{{- if $auth.enabled }}
{{- $_ := set $config "AuthAudience" $auth.audience }}
{{- $_ := set $config "AuthCrossNodeServiceAccounts" (include "lanyard.crossNode" . | fromJsonArray) }}
{{- $_ := set $config "AuthMode" ($auth.mode | default "enforce") }}
{{- $_ := set $config "AuthFailOpenOnUnavailable" ($auth.failOpenOnUnavailable | default false) }}
{{- end }}
{{- $config | toJson }}
{{- end }}

{{/* lanyard.accounts: every service account of the release, "namespace/name", as JSON: none may be on a list of others. */}}
{{- define "lanyard.accounts" -}}
{{- $accounts := list }}
{{- range list "lanyard-webhook" "lanyard-connector" "lanyard-connector-deployment" "lanyard-exchange" "lanyard-uninstall" "lanyard-test" }}
{{- $accounts = append $accounts (printf "%s/%s" $.Release.Namespace .) }}
{{- end }}
{{- $accounts | toJson }}
{{- end }}

{{/* lanyard.connector.common: the settings that both roles have. Takes (dict "root" . "role" VALUES). */}}
{{- define "lanyard.connector.common" -}}
{{- $settings := dict
  "strictLiveness" .role.strictLiveness
  "overridesNeedToken" .role.overridesNeedToken
  "drainSeconds" (int64 .role.drainSeconds)
  "releaseServiceAccounts" (include "lanyard.accounts" .root | fromJsonArray) }}
{{- if .root.Values.global.platformConnectorAuth.enabled }}
{{- $_ := set $settings "selfTest" (dict "tokenFile" "/var/run/secrets/lanyard/connector/token" "apiTokenFile" "/var/run/secrets/kubernetes.io/serviceaccount/token") }}
{{- end }}
{{- range $section := list "review" "limits" "liveness" }}
{{- $numbers := dict }}
{{- range $key, $value := get $.role $section | default dict }}{{ $_ := set $numbers $key (kindIs "bool" $value | ternary $value (int64 $value)) }}{{ end }}
{{- if $numbers }}{{ $_ := set $settings $section $numbers }}{{ end }}
{{- end }}
{{- $settings | toJson }}
{{- end }}

{{/* lanyard.connector.sinks: the sinks that both roles have. Takes the same. */}}
{{- define "lanyard.connector.sinks" -}}
{{- $kubernetes := dict "enabled" .role.sinks.kubernetes.enabled "foreignConditions" .root.Values.connector.foreignConditions }}
{{- range list "maxConditions" "writesPerMinute" "eventsPerMinute" }}
{{- if hasKey $.role.sinks.kubernetes . }}{{ $_ := set $kubernetes . (int64 (get $.role.sinks.kubernetes .)) }}{{ end }}
{{- end }}
{{- $sinks := dict "log" (dict "enabled" .role.sinks.log.enabled) "kubernetes" $kubernetes "store" (dict "enabled" .role.sinks.store.enabled) }}
{{- if and .role.sinks.store.enabled (hasKey .role.sinks.store "retentionDays") }}{{ $_ := set $sinks.store "retentionDays" (int64 .role.sinks.store.retentionDays) }}{{ end }}
{{- if hasKey .role.sinks "timeoutMilliseconds" }}{{ $_ := set $sinks "timeoutMilliseconds" (int64 .role.sinks.timeoutMilliseconds) }}{{ end }}
{{- $sinks | toJson }}
{{- end }}

{{/* lanyard.socket.settings: the settings file of the DaemonSet, as YAML. Paths are those within the container. */}}
{{- define "lanyard.socket.settings" -}}
{{- include "lanyard.validate" . }}
{{- $v := .Values.connector.socket }}
{{- $settings := include "lanyard.connector.common" (dict "root" . "role" $v) | fromJson }}
{{- if .Values.global.platformConnectorAuth.enabled }}
{{- /* Those that the account may watch, and no others: see connector-access.yaml. */}}
{{- $_ := set $settings "liveness" (set ($settings.liveness | default dict) "namespaces" (include "lanyard.watched" . | fromJsonArray)) }}
{{- end }}
{{- $sinks := include "lanyard.connector.sinks" (dict "root" . "role" $v) | fromJson }}
{{- $_ := set $sinks "forward" (dict "enabled" $v.sinks.forward.enabled) }}
{{- if $v.sinks.forward.enabled }}
{{- if $v.sinks.forward.hostSocket }}
{{- $_ := set $sinks.forward "socket" (printf "/var/run/lanyard/forward/%s" (base $v.sinks.forward.hostSocket)) }}
{{- else }}
{{- $_ := set $sinks.forward "address" (include "lanyard.forward.address" .) }}
{{- $_ := set $sinks.forward "caFile" "/var/run/lanyard/ca/ca.crt" }}
{{- with $v.sinks.forward.serverName }}{{ $_ := set $sinks.forward "serverName" . }}{{ end }}
{{- end }}
{{- if .Values.global.platformConnectorAuth.enabled }}{{ $_ := set $sinks.forward "tokenFile" "/var/run/secrets/lanyard/connector/token" }}{{ end }}
{{- end }}
{{- if $v.sinks.store.enabled }}{{ $_ := set $sinks.store "path" "/var/lib/lanyard/store/events.db" }}{{ end }}
{{- $_ := set $settings "sinks" $sinks }}
{{- $socket := dict "requireToken" $v.requireToken "mode" $v.mode }}
{{- with $v.maxConnectionsPerUser }}{{ $_ := set $socket "maxConnectionsPerUser" (int64 .) }}{{ end }}
{{- if hasKey $v "group" }}{{ $_ := set $socket "group" (int64 $v.group) }}{{ end }}
{{- $_ := set $settings "socket" $socket }}
{{- $spool := dict "enabled" $v.spool.enabled }}
{{- if $v.spool.enabled }}
{{- $_ := set $spool "directory" "/var/lib/lanyard/spool" }}
{{- range list "maxBytes" "groupMilliseconds" "retryMostSeconds" "giveUpAttempts" "giveUpSeconds" }}
{{- if hasKey $v.spool . }}{{ $_ := set $spool . (int64 (get $v.spool .)) }}{{ end }}
{{- end }}
{{- end }}
{{- $_ := set $settings "spool" $spool }}
{{- toYaml $settings }}
{{- end }}

{{/* lanyard.forward.address: where the DaemonSet hands events to. */}}
{{- define "lanyard.forward.address" -}}
{{- .Values.connector.socket.sinks.forward.address | default (printf "lanyard-connector.%s.svc:50051" .Release.Namespace) }}
{{- end }}

{{/* lanyard.forward.own: whether that is our own Deployment ("true" or ""). */}}
{{- define "lanyard.forward.own" -}}
{{- $f := .Values.connector.socket.sinks.forward }}
{{- if and .Values.connector.socket.enabled .Values.connector.deployment.enabled $f.enabled (not $f.hostSocket) (not $f.address) }}true{{ end }}
{{- end }}

{{/* lanyard.deployment.settings: the settings file of the Deployment, as YAML. */}}
{{- define "lanyard.deployment.settings" -}}
{{- include "lanyard.validate" . }}
{{- $v := .Values.connector.deployment }}
{{- $settings := include "lanyard.connector.common" (dict "root" . "role" $v) | fromJson }}
{{- $sinks := include "lanyard.connector.sinks" (dict "root" . "role" $v) | fromJson }}
{{- if $v.sinks.store.enabled }}
{{- $_ := set $sinks.store "driver" $v.sinks.store.driver }}
{{- if eq $v.sinks.store.driver "postgres" }}
{{- $_ := set $sinks.store "dsnFile" (printf "/var/run/secrets/lanyard/store/%s" $v.sinks.store.dsnSecret.key) }}
{{- else }}
{{- $_ := set $sinks.store "path" "/var/lib/lanyard/store/events.db" }}
{{- end }}
{{- end }}
{{- $_ := set $settings "sinks" $sinks }}
{{- if hasKey $v "publishers" }}
{{- $publishers := $v.publishers }}
{{- if include "lanyard.forward.own" . }}{{ $publishers = append $publishers (printf "%s/lanyard-connector" .Release.Namespace) }}{{ end }}
{{- $_ := set $settings "publishers" (uniq $publishers) }}
{{- end }}
{{- toYaml $settings }}
{{- end }}

{{/* lanyard.connector.token: the volume with a token of the connector's own for its own audience. It is reviewed at the start, and presented when events are forwarded. */}}
{{- define "lanyard.connector.token" -}}
- name: token
  projected:
    sources:
      - serviceAccountToken:
          path: token
          audience: {{ .Values.global.platformConnectorAuth.audience | toJson }}
          expirationSeconds: {{ int64 .Values.global.platformConnectorAuth.tokenExpirationSeconds }}
{{- end }}

{{/* lanyard.connector.probes: readiness, liveness and a patient start. */}}
{{- define "lanyard.connector.probes" -}}
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 3
  failureThreshold: 2
livenessProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 10
  timeoutSeconds: 5 # a node that is short of time is no reason to be killed
  # One that does not answer will not drain either: its node is without a connector until it is gone.
  terminationGracePeriodSeconds: 5
startupProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 2
  failureThreshold: 60
{{- end }}

{{/* lanyard.watched: the namespaces whose pods the DaemonSet watches, as JSON: those of the listed publishers and of the accounts that may name other nodes. */}}
{{- define "lanyard.watched" -}}
{{- $namespaces := list }}
{{- range .Values.publishers }}{{ $namespaces = append $namespaces (first (splitList "/" .)) }}{{ end }}
{{- range include "lanyard.crossNode" . | fromJsonArray }}{{ $namespaces = append $namespaces (index (splitList ":" .) 2) }}{{ end }}
{{- sortAlpha $namespaces | uniq | toJson }}
{{- end }}
