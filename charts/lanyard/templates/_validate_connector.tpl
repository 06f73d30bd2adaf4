{{/* The checks of connector's values; _validate.tpl says how checks are written. */}}

{{- define "lanyard.validate.connector" -}}
{{- $all := .all -}}{{- $root := .root -}}{{- $c := $root.Values.connector -}}
{{- $auth := ($root.Values.global | default dict).platformConnectorAuth | default dict -}}
{{- if include "lanyard.check.list" (dict "all" $all "at" "connector.foreignConditions" "value" $c.foreignConditions) -}}
{{- range $i, $type := $c.foreignConditions -}}
{{- if not (and (kindIs "string" $type) (eq (regexFind "^[A-Za-z][A-Za-z0-9_.-]{0,62}" (toString $type)) (toString $type)) $type) -}}
{{- include "lanyard.fault" (dict "all" $all "at" (printf "connector.foreignConditions[%d]" $i) "say" "must be a condition's type: a letter, then at most 62 letters, digits, '.', '_' and '-'") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $role := list "socket" "deployment" -}}
{{- $v := get $c $role -}}{{- $at := printf "connector.%s" $role -}}
{{- include "lanyard.check.bool" (dict "all" $all "at" (printf "%s.enabled" $at) "value" $v.enabled) -}}
{{- range list "strictLiveness" "overridesNeedToken" -}}
{{- include "lanyard.check.bool" (dict "all" $all "at" (printf "%s.%s" $at .) "value" (get $v .)) -}}
{{- end -}}
{{- include "lanyard.check.drain" (dict "all" $all "at" (printf "%s.drainSeconds" $at) "value" $v.drainSeconds) -}}
{{- $none := true -}}
{{- range $sink, $s := $v.sinks -}}
{{- if kindIs "map" $s -}}
{{- include "lanyard.check.bool" (dict "all" $all "at" (printf "%s.sinks.%s.enabled" $at $sink) "value" $s.enabled) -}}
{{- if $s.enabled -}}{{- $none = false -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $v.enabled $none -}}
{{- include "lanyard.fault" (dict "all" $all "at" (printf "%s.sinks" $at) "say" "none is enabled; an accepted event would be lost") -}}
{{- end -}}
{{- end -}}
{{- if $c.socket.enabled -}}{{- include "lanyard.validate.socket" (dict "all" $all "root" $root "auth" $auth) -}}{{- end -}}
{{- include "lanyard.validate.deployment" (dict "all" $all "root" $root "auth" $auth) -}}
{{- end }}

{{/* lanyard.check.drain: a whole number of seconds from 1 to 600. */}}
{{- define "lanyard.check.drain" -}}
{{- if not (or (kindIs "float64" .value) (kindIs "int64" .value) (kindIs "int" .value)) -}}
{{- include "lanyard.fault" (dict "all" .all "at" .at "say" "must be a number of seconds, not quoted and not null") -}}
{{- else if or (ne (floor .value) (float64 .value)) (lt (float64 .value) 1.0) (gt (float64 .value) 600.0) -}}
{{- include "lanyard.fault" (dict "all" .all "at" .at "say" "must be a whole number of seconds from 1 to 600") -}}
{{- end -}}
{{- end }}

{{- define "lanyard.validate.socket" -}}
{{- $all := .all -}}{{- $root := .root -}}{{- $v := $root.Values.connector.socket -}}
{{- include "lanyard.check.bool" (dict "all" $all "at" "connector.socket.requireToken" "value" $v.requireToken) -}}
{{- if not (and (kindIs "string" $v.mode) (regexMatch "^0[67][0-7][0-7]$" (toString $v.mode)) (not (regexMatch "[1357]" (toString $v.mode)))) -}}
{{- include "lanyard.fault" (dict "all" $all "at" "connector.socket.mode" "say" "must be four octal digits in quotes that let the owner read and write and nobody execute, such as \"0660\"") -}}
{{- end -}}
{{- if hasKey $v "group" -}}
{{- if or (kindIs "string" $v.group) (kindIs "bool" $v.group) (not (kindIs "invalid" $v.group | ternary false (ge (float64 $v.group) 0.0))) -}}
{{- include "lanyard.fault" (dict "all" $all "at" "connector.socket.group" "say" "must be a numeric group; omit the key to leave the file's alone") -}}
{{- end -}}
{{- end -}}
{{- if and $v.sinks.kubernetes.enabled (not $root.Values.admission.policies.enabled) -}}
{{- include "lanyard.fault" (dict "all" $all "at" "connector.socket.sinks.kubernetes.enabled" "say" "must be false while admission.policies.enabled is false: without the policy lanyard-node-status every node's connector could write about every node, and the program does not start") -}}
{{- end -}}
{{- if ne (toString ($v.sinks.store.driver | default "sqlite")) "sqlite" -}}
{{- include "lanyard.fault" (dict "all" $all "at" "connector.socket.sinks.store.driver" "say" "is for the Deployment; on every node it would mean one set of database credentials a node") -}}
{{- end -}}
{{- if and $v.spool.enabled (lt (int64 $v.spool.maxBytes) (mul 4 (int64 (($v.limits | default dict).maxMessageBytes | default 4194304)))) -}}
{{- include "lanyard.fault" (dict "all" $all "at" "connector.socket.spool.maxBytes" "say" "must be at least four times limits.maxMessageBytes (4 MiB if omitted): a call that can never be taken in would be repeated for ever") -}}
{{- end -}}
{{- $dirs := dict "connector.socket.hostDir" $v.hostDir -}}
{{- if $v.spool.enabled -}}{{- $_ := set $dirs "connector.socket.spool.hostDir" $v.spool.hostDir -}}{{- end -}}
{{- if $v.sinks.store.enabled -}}{{- $_ := set $dirs "connector.socket.sinks.store.hostDir" $v.sinks.store.hostDir -}}{{- end -}}
{{- range $at, $dir := $dirs -}}
{{- include "lanyard.check.hostDir" (dict "all" $all "at" $at "value" $dir) -}}
{{- range $otherAt, $other := $dirs -}}
{{- if and (ne $at $otherAt) (hasPrefix (printf "%s/" (toString $other)) (printf "%s/" (toString $dir))) -}}
{{- include "lanyard.fault" (dict "all" $all "at" $at "say" (printf "must lie neither at nor below %s: publishers mount the socket's directory, and nobody else may see the others" $otherAt)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- include "lanyard.validate.forward" . -}}
{{- end }}

{{- define "lanyard.validate.forward" -}}
{{- $all := .all -}}{{- $v := .root.Values.connector.socket -}}{{- $f := $v.sinks.forward -}}{{- $at := "connector.socket.sinks.forward" -}}
{{- if $f.enabled -}}
{{- if $f.hostSocket -}}
{{- include "lanyard.check.hostSocket" (dict "all" $all "at" (printf "%s.hostSocket" $at) "value" $f.hostSocket) -}}
{{- range list "address" "serverName" "caConfigMap" -}}
{{- if get $f . -}}
{{- include "lanyard.fault" (dict "all" $all "at" (printf "%s.%s" $at .) "say" "stands beside hostSocket, which needs no TLS; keep one of them") -}}
{{- end -}}
{{- end -}}
{{- if eq (dir (toString $f.hostSocket)) (toString $v.hostDir) -}}
{{- include "lanyard.fault" (dict "all" $all "at" (printf "%s.hostSocket" $at) "say" "lies in connector.socket.hostDir, where this connector's own socket is") -}}
{{- end -}}
{{- else -}}
{{- if and (not .auth.enabled) -}}
{{- include "lanyard.fault" (dict "all" $all "at" (printf "%s.enabled" $at) "say" "needs global.platformConnectorAuth.enabled: true: a connector's Deployment accepts no caller without a token") -}}
{{- end -}}
{{- if and $f.address (not (regexMatch "^[^\\s/:]+:[1-9][0-9]{0,4}$" (toString $f.address))) -}}
{{- include "lanyard.fault" (dict "all" $all "at" (printf "%s.address" $at) "say" "must be host:port without a scheme, such as lanyard-connector.nvsentinel.svc:50051") -}}
{{- end -}}
{{- if not (or $f.address .root.Values.connector.deployment.enabled) -}}
{{- include "lanyard.fault" (dict "all" $all "at" (printf "%s.enabled" $at) "say" "needs connector.deployment.enabled: true, or the address or hostSocket of another connector") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "lanyard.validate.deployment" -}}
{{- $all := .all -}}{{- $root := .root -}}{{- $v := $root.Values.connector.deployment -}}{{- $at := "connector.deployment" -}}
{{- if hasKey $v "publishers" -}}
{{- if include "lanyard.check.list" (dict "all" $all "at" (printf "%s.publishers" $at) "value" $v.publishers) -}}
{{- range $i, $entry := $v.publishers -}}
{{- $parts := splitList "/" (toString $entry) -}}
{{- if or (not (kindIs "string" $entry)) (ne (len $parts) 2) -}}
{{- include "lanyard.fault" (dict "all" $all "at" (printf "%s.publishers[%d]" $at $i) "say" "must be written namespace/serviceAccount") -}}
{{- else -}}
{{- include "lanyard.check.account" (dict "all" $all "at" (printf "%s.publishers[%d]" $at $i) "value" (printf "system:serviceaccount:%s:%s" (first $parts) (last $parts))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $v.enabled -}}
{{- if not .auth.enabled -}}
{{- include "lanyard.fault" (dict "all" $all "at" (printf "%s.enabled" $at) "say" "needs global.platformConnectorAuth.enabled: true: without tokens there is no node to pin a caller to") -}}
{{- end -}}
{{- if and (not $root.Values.certManager.enabled) (not $root.Values.certs.connectorSecret) -}}
{{- include "lanyard.fault" (dict "all" $all "at" "certs.connectorSecret" "say" "must be given while certManager.enabled is false: the Deployment serves TLS only") -}}
{{- end -}}
{{- $store := $v.sinks.store -}}
{{- if not (has (toString $store.driver) (list "sqlite" "postgres")) -}}
{{- include "lanyard.fault" (dict "all" $all "at" (printf "%s.sinks.store.driver" $at) "say" "must be sqlite or postgres") -}}
{{- end -}}
{{- $postgres := and $store.enabled (eq (toString $store.driver) "postgres") -}}
{{- if and $postgres (not ($store.dsnSecret | default dict).name) -}}
{{- include "lanyard.fault" (dict "all" $all "at" (printf "%s.sinks.store.dsnSecret.name" $at) "say" "must name the Secret with the data source name when the driver is postgres") -}}
{{- end -}}
{{- if and (not $postgres) ($store.dsnSecret | default dict).name -}}
{{- include "lanyard.fault" (dict "all" $all "at" (printf "%s.sinks.store.dsnSecret.name" $at) "say" "is for the driver postgres; remove it") -}}
{{- end -}}
{{- if ($store.persistence | default dict).enabled -}}
{{- if or $postgres (not $store.enabled) -}}
{{- include "lanyard.fault" (dict "all" $all "at" (printf "%s.sinks.store.persistence.enabled" $at) "say" "is for the driver sqlite; set it to false") -}}
{{- else if gt (int64 $v.replicas) 1 -}}
{{- include "lanyard.fault" (dict "all" $all "at" (printf "%s.replicas" $at) "say" "must be 1 with a persistent SQLite file, which one pod alone can write; for replicas use the driver postgres") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}
