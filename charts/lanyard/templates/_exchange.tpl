{{/*
The exchange's program and what it is started with. lanyard.exchange.on says whether it runs ("true" or ""): with replicas: 0
the rules of managed jobs are in force, and no program hands out tokens.
*/}}
{{- define "lanyard.exchange.on" -}}
{{- if and .Values.exchange.enabled (gt (int64 .Values.exchange.replicas) 0) }}true{{ end }}
{{- end }}

{{- define "lanyard.exchange.selector" -}}
app.kubernetes.io/part-of: lanyard
app.kubernetes.io/component: exchange
{{- end }}

{{/* The Secret with its certificate. */}}
{{- define "lanyard.exchange.tlsSecret" -}}
{{- if .Values.certManager.enabled }}lanyard-exchange-tls{{ else }}{{ .Values.certs.exchangeSecret }}{{ end }}
{{- end }}

{{/* lanyard.exchange.config: its configuration file, as YAML. */}}
{{- define "lanyard.exchange.config" -}}
{{- include "lanyard.validate" . }}
{{- $v := .Values.exchange }}
{{- $config := dict
  "issuer" ($v.issuer | default (include "lanyard.baseURL" .))
  "baseURL" (include "lanyard.baseURL" .)
  "clientID" .Values.jobs.audience
  "workloadAudience" $v.workloadAudience
  "audiences" (concat (list $v.workloadAudience) $v.audiences | uniq)
  "tokenSeconds" (int64 $v.tokenSeconds)
  "scopes" $v.scopes
  "replicas" (int64 $v.replicas)
  "drainSeconds" (int64 $v.drainSeconds)
  "admin" (dict "enabled" $v.admin.enabled) }}
{{- $submitters := list }}
{{- range .Values.allowedSubmitterServiceAccounts }}{{ $parts := splitList ":" . }}{{ $submitters = append $submitters (printf "%s/%s" (index $parts 2) (index $parts 3)) }}{{ end }}
{{- $_ := set $config "allowedSubmitterServiceAccounts" $submitters }}
{{- $keys := dict "secret" (printf "%s/lanyard-exchange-keys" .Release.Namespace) "algorithm" $v.keys.algorithm }}
{{- range list "maxAgeSeconds" "retentionSeconds" "rotateEverySeconds" }}{{ $_ := set $keys . (int64 (get $v.keys .)) }}{{ end }}
{{- $_ := set $config "keys" $keys }}
{{- $store := dict "driver" $v.store.driver }}
{{- if eq $v.store.driver "sqlite" }}
{{- $_ := set $store "directory" "/var/lib/lanyard/exchange/records" }}
{{- else }}
{{- $_ := set $store "maxConnections" (int64 $v.store.maxConnections) }}
{{- $_ := set $store "connectionFile" (printf "/var/run/secrets/lanyard/store/%s" $v.store.connectionSecret.key) }}
{{- with $v.store.connectionSecret.listenKey }}{{ $_ := set $store "listenConnectionFile" (printf "/var/run/secrets/lanyard/store/%s" .) }}{{ end }}
{{- end }}
{{- $_ := set $config "store" $store }}
{{- $reconcile := dict "policies" "/etc/lanyard/config/policies.json" }}
{{- with $v.reconcile.cluster }}{{ $_ := set $reconcile "cluster" . }}{{ end }}
{{- range list "maxAgeSeconds" "hardCapSeconds" "retentionSeconds" }}{{ $_ := set $reconcile . (int64 (get $v.reconcile .)) }}{{ end }}
{{- if eq $v.store.driver "postgres" }}
{{- /* Even one replica overlaps with its successor during an upgrade. A file has one process at a time. */}}
{{- $_ := set $reconcile "lease" (printf "%s/lanyard-exchange" .Release.Namespace) }}
{{- end }}
{{- if .Values.jobs.caConfigMap.manage }}
{{- $_ := set $reconcile "caConfigMap" .Values.jobs.caConfigMap.name }}
{{- $_ := set $reconcile "caFile" "/etc/lanyard/tls/ca.crt" }}
{{- if include "lanyard.forward.told" . }}{{ $_ := set $reconcile "caNamespaces" (list .Release.Namespace) }}{{ end }}
{{- if not .Values.connector.deployment.enabled }}{{ $_ := set $reconcile "caPublishers" false }}{{ end }}
{{- end }}
{{- $_ := set $config "reconcile" $reconcile }}
{{- $claims := dict "email" $v.claims.email "groups" $v.claims.groups }}
{{- with $v.claims.subjects }}{{ $_ := set $claims "subjects" . }}{{ end }}
{{- $_ := set $config "claims" $claims }}
{{- $callout := dict "audience" ($v.authenticate.audience | default $v.workloadAudience) "checkRow" $v.authenticate.checkRow "headerPrefix" $v.authenticate.headerPrefix }}
{{- $_ := set $config "authenticate" $callout }}
{{- with $v.login }}{{ $_ := set $config "login" . }}{{ end }}
{{- range list "review" "limits" }}
{{- $section := dict }}
{{- range $key, $value := get $v . }}{{ $_ := set $section $key (kindIs "bool" $value | ternary $value (int64 $value)) }}{{ end }}
{{- if $section }}{{ $_ := set $config . $section }}{{ end }}
{{- end }}
{{- toYaml $config }}
{{- end }}

{{/*
lanyard.exchange.policies: the settings of the policies (package policy, Settings), as JSON, from which the exchange renders
what it must find installed.
*/}}
{{- define "lanyard.exchange.policies" -}}
{{- $s := include "lanyard.policy" . | fromJson }}
{{- $settings := dict }}
{{- range list "mode" "jobs" "publisherAudience" "jobAudience" "jobTokenFile" "publishers" "publisherAccounts" "releaseAccounts" "tokenRequesters" "submitters" "templateEditors" "templatePaths" "excludedNamespaces" "socketConnector" "foreignConditions" }}
{{- $_ := set $settings . (get $s .) }}
{{- end }}
{{- $kinds := list }}
{{- range .Values.jobKinds }}{{ $kinds = append $kinds (omit . "templatePaths") }}{{ end }}
{{- $_ := set $settings "kinds" $kinds }}
{{- $_ := set $settings "delegating" .Values.delegatingControllers }}
{{- $settings | toPrettyJson }}
{{- end }}

{{/*
lanyard.exchange.kinds: what the exchange reads besides pods, as JSON: the job kinds and their parents, group to resources.
*/}}
{{- define "lanyard.exchange.kinds" -}}
{{- $byGroup := dict }}
{{- range (include "lanyard.policy" . | fromJson).kinds }}
{{- $_ := set $byGroup .group (append (get $byGroup .group | default list) .resource | sortAlpha | uniq) }}
{{- end }}
{{- $byGroup | toJson }}
{{- end }}

{{/* lanyard.exchange.told: the namespaces in which the exchange keeps the CA certificate, as JSON. */}}
{{- define "lanyard.exchange.told" -}}
{{- $namespaces := .Values.jobs.namespaces }}
{{- if .Values.global.platformConnectorAuth.enabled }}
{{- range .Values.publishers }}{{ $namespaces = append $namespaces (first (splitList "/" .)) }}{{ end }}
{{- end }}
{{- if include "lanyard.forward.told" . }}{{ $namespaces = append $namespaces .Release.Namespace }}{{ end }}
{{- sortAlpha $namespaces | uniq | toJson }}
{{- end }}

{{/*
lanyard.forward.told: whether the exchange keeps the CA certificate that the nodes' connectors check our own Deployment with ("true"
or ""). Their pods wait for it.
*/}}
{{- define "lanyard.forward.told" -}}
{{- $name := .Values.connector.socket.sinks.forward.caConfigMap | default .Values.jobs.caConfigMap.name }}
{{- if and (include "lanyard.forward.own" .) (include "lanyard.exchange.on" .) .Values.jobs.caConfigMap.manage (eq $name .Values.jobs.caConfigMap.name) }}true{{ end }}
{{- end }}
