{{/* The checks of exchange's and gateway's values; _validate.tpl says how checks are written. */}}

{{- define "lanyard.validate.exchange" -}}
{{- $all := .all -}}{{- $root := .root -}}{{- $v := $root.Values.exchange -}}
{{- if not (or (kindIs "float64" $v.replicas) (kindIs "int64" $v.replicas) (kindIs "int" $v.replicas)) -}}
{{- include "lanyard.fault" (dict "all" $all "at" "exchange.replicas" "say" "must be a whole number; 0 installs the rules without the program") -}}
{{- else if lt (float64 $v.replicas) 0.0 -}}
{{- include "lanyard.fault" (dict "all" $all "at" "exchange.replicas" "say" "must not be negative; 0 installs the rules without the program") -}}
{{- else if and (gt (float64 $v.replicas) 1.0) (ne (toString $v.store.driver) "postgres") -}}
{{- include "lanyard.fault" (dict "all" $all "at" "exchange.replicas" "say" "must be 1 with store.driver sqlite, whose file one pod alone can have open; for replicas use the driver postgres") -}}
{{- end -}}
{{- range list "keepData" -}}
{{- include "lanyard.check.bool" (dict "all" $all "at" (printf "exchange.%s" .) "value" (get $v .)) -}}
{{- end -}}
{{- include "lanyard.check.bool" (dict "all" $all "at" "exchange.claims.email" "value" $v.claims.email) -}}
{{- include "lanyard.check.bool" (dict "all" $all "at" "exchange.claims.groups" "value" $v.claims.groups) -}}
{{- include "lanyard.check.bool" (dict "all" $all "at" "exchange.authenticate.checkRow" "value" $v.authenticate.checkRow) -}}
{{- include "lanyard.check.bool" (dict "all" $all "at" "jobs.networkPolicy.enabled" "value" $root.Values.jobs.networkPolicy.enabled) -}}
{{- include "lanyard.check.drain" (dict "all" $all "at" "exchange.drainSeconds" "value" $v.drainSeconds) -}}
{{- include "lanyard.check.https" (dict "all" $all "at" "exchange.issuer" "value" $v.issuer) -}}
{{- range $key, $value := $v.login -}}
{{- if or (eq $key "issuer") (hasSuffix "Endpoint" $key) -}}
{{- include "lanyard.check.https" (dict "all" $all "at" (printf "exchange.login.%s" $key) "value" $value) -}}
{{- end -}}
{{- end -}}
{{- include "lanyard.validate.audiences" . -}}
{{- include "lanyard.validate.records" . -}}
{{- if include "lanyard.check.list" (dict "all" $all "at" "gateway.namespaces" "value" $root.Values.gateway.namespaces) -}}
{{- range $i, $entry := $root.Values.gateway.namespaces -}}
{{- include "lanyard.check.namespace" (dict "all" $all "at" (printf "gateway.namespaces[%d]" $i) "value" $entry) -}}
{{- end -}}
{{- end -}}
{{- if and $v.enabled (gt (int64 $v.replicas) 0) (not $root.Values.certManager.enabled) (not $root.Values.certs.exchangeSecret) -}}
{{- include "lanyard.fault" (dict "all" $all "at" "certs.exchangeSecret" "say" "must be given while certManager.enabled is false: the exchange serves TLS only") -}}
{{- end -}}
{{- end }}

{{/* lanyard.check.https: an https URL, or nothing. */}}
{{- define "lanyard.check.https" -}}
{{- if and .value (not (regexMatch "^https://[^\\s/?#@]+(/[^\\s?#]*)?$" (toString .value))) -}}
{{- include "lanyard.fault" (dict "all" .all "at" .at "say" "must be an https URL without user, query or fragment") -}}
{{- end -}}
{{- end }}

{{/* What is issued must never be what is exchanged, nor what publishers present. */}}
{{- define "lanyard.validate.audiences" -}}
{{- $all := .all -}}{{- $root := .root -}}{{- $v := $root.Values.exchange -}}
{{- $auth := ($root.Values.global | default dict).platformConnectorAuth | default dict -}}
{{- $named := dict "exchange.workloadAudience" $v.workloadAudience -}}
{{- if include "lanyard.check.list" (dict "all" $all "at" "exchange.audiences" "value" $v.audiences) -}}
{{- range $i, $entry := $v.audiences -}}{{- $_ := set $named (printf "exchange.audiences[%d]" $i) $entry -}}{{- end -}}
{{- end -}}
{{- range $at, $audience := $named -}}
{{- include "lanyard.check.audience" (dict "all" $all "at" $at "value" $audience) -}}
{{- if eq (toString $audience) (toString $root.Values.jobs.audience) -}}
{{- include "lanyard.fault" (dict "all" $all "at" $at "say" "must differ from jobs.audience: an issued token could be exchanged again") -}}
{{- else if or (eq (toString $audience) "lanyard-admin") (eq (toString $audience) (toString $auth.audience)) -}}
{{- include "lanyard.fault" (dict "all" $all "at" $at "say" "is the audience of another door (lanyard-admin, or global.platformConnectorAuth.audience); a job's token must not open it") -}}
{{- end -}}
{{- end -}}
{{- if and $v.authenticate.audience (not (has $v.authenticate.audience (append ($v.audiences | default list) $v.workloadAudience))) -}}
{{- include "lanyard.fault" (dict "all" $all "at" "exchange.authenticate.audience" "say" "must be exchange.workloadAudience or one of exchange.audiences") -}}
{{- end -}}
{{- end }}

{{/* Where records and keys are. */}}
{{- define "lanyard.validate.records" -}}
{{- $all := .all -}}{{- $v := .root.Values.exchange -}}
{{- $secret := $v.store.connectionSecret | default dict -}}
{{- if not (has (toString $v.store.driver) (list "sqlite" "postgres")) -}}
{{- include "lanyard.fault" (dict "all" $all "at" "exchange.store.driver" "say" "must be sqlite or postgres") -}}
{{- else if and (eq (toString $v.store.driver) "postgres") (not $secret.name) -}}
{{- include "lanyard.fault" (dict "all" $all "at" "exchange.store.connectionSecret.name" "say" "must name the Secret with the connection string when the driver is postgres") -}}
{{- else if and (eq (toString $v.store.driver) "sqlite") $secret.name -}}
{{- include "lanyard.fault" (dict "all" $all "at" "exchange.store.connectionSecret.name" "say" "is for the driver postgres; remove it") -}}
{{- end -}}
{{- if lt (int64 $v.keys.retentionSeconds) (int64 $v.tokenSeconds) -}}
{{- include "lanyard.fault" (dict "all" $all "at" "exchange.keys.retentionSeconds" "say" "must be at least exchange.tokenSeconds, or valid tokens could not be verified") -}}
{{- end -}}
{{- if and (int64 $v.keys.rotateEverySeconds) (le (int64 $v.keys.rotateEverySeconds) (mul 2 (int64 $v.keys.maxAgeSeconds))) -}}
{{- include "lanyard.fault" (dict "all" $all "at" "exchange.keys.rotateEverySeconds" "say" "must be more than twice exchange.keys.maxAgeSeconds, or a key would sign before it is known; 0 never rotates") -}}
{{- end -}}
{{- end }}
