{{/*
The checks of the values, in words. The schema says the same where it can; these also run with --skip-schema-validation, and
they say what only templates can know (the release's namespace, two values that exclude each other). All faults are told at
once.
*/}}

{{/* lanyard.fault: notes a fault. Takes (dict "all" DICT "at" KEY "say" SENTENCE). */}}
{{- define "lanyard.fault" -}}
{{- $_ := set .all "faults" (append .all.faults (printf "%s: %s" .at .say)) -}}
{{- end }}

{{/* lanyard.validate: refuses values with a fault. */}}
{{- define "lanyard.validate" -}}
{{- with include "lanyard.faults" . | fromJsonArray -}}
{{- fail (printf "\n  %s\n" (join "\n  " .)) -}}
{{- end -}}
{{- end }}

{{/*
lanyard.faults: all faults, as a JSON list. Templates below templates/tests, which helm renders first, leave the refusal to those of
the programs: whoever reads it has changed nothing in a test.
*/}}
{{- define "lanyard.faults" -}}
{{- $all := dict "faults" list "own" (list) "ns" .Release.Namespace -}}
{{- range list "lanyard-webhook" "lanyard-connector" "lanyard-connector-deployment" "lanyard-exchange" "lanyard-uninstall" "lanyard-test" -}}
{{- $_ := set $all "own" (append $all.own (printf "system:serviceaccount:%s:%s" $.Release.Namespace .)) -}}
{{- end -}}
{{- include "lanyard.validate.complete" (dict "all" $all "root" .) -}}
{{- if not $all.faults -}}
{{- include "lanyard.validate.auth" (dict "all" $all "root" .) -}}
{{- include "lanyard.validate.jobs" (dict "all" $all "root" .) -}}
{{- include "lanyard.validate.kinds" (dict "all" $all "root" .) -}}
{{- include "lanyard.validate.admission" (dict "all" $all "root" .) -}}
{{- include "lanyard.validate.connector" (dict "all" $all "root" .) -}}
{{- include "lanyard.validate.exchange" (dict "all" $all "root" .) -}}
{{- include "lanyard.validate.certs" (dict "all" $all "root" .) -}}
{{- include "lanyard.validate.cluster" (dict "all" $all "root" .) -}}
{{- end -}}
{{- toJson $all.faults -}}
{{- end }}

{{/* lanyard.check.bool: a real boolean. Takes "all" "at" "value". */}}
{{- define "lanyard.check.bool" -}}
{{- if not (kindIs "bool" .value) -}}
{{- include "lanyard.fault" (dict "all" .all "at" .at "say" "must be given as true or false, a real boolean: not null, not 0, not a quoted word") -}}
{{- end -}}
{{- end }}

{{/* lanyard.check.seconds: a whole number of seconds that Kubernetes accepts for a projected token. */}}
{{- define "lanyard.check.seconds" -}}
{{- if not (or (kindIs "float64" .value) (kindIs "int64" .value) (kindIs "int" .value)) -}}
{{- include "lanyard.fault" (dict "all" .all "at" .at "say" "must be a number of seconds, not quoted and not null") -}}
{{- else if ne (floor .value) (float64 .value) -}}
{{- include "lanyard.fault" (dict "all" .all "at" .at "say" "must be a whole number of seconds: Kubernetes refuses fractions") -}}
{{- else if or (lt (float64 .value) 600.0) (gt (float64 .value) 4294967296.0) -}}
{{- include "lanyard.fault" (dict "all" .all "at" .at "say" "must be from 600 to 4294967296 seconds: Kubernetes refuses other lifetimes of a projected token") -}}
{{- end -}}
{{- end }}

{{/* lanyard.check.path: an absolute, clean path. */}}
{{- define "lanyard.check.path" -}}
{{- if not (kindIs "string" .value) -}}
{{- include "lanyard.fault" (dict "all" .all "at" .at "say" "must be an absolute directory path, not null") -}}
{{- else if or (not (hasPrefix "/" .value)) (eq .value "/") (ne (clean .value) .value) (contains ":" .value) -}}
{{- include "lanyard.fault" (dict "all" .all "at" .at "say" "must be an absolute directory path without trailing slash, '..', '//' or colon, such as /var/run/secrets/x") -}}
{{- end -}}
{{- end }}

{{/* lanyard.check.tokenPath: such a path for a role's token. A mount of somebody else's at, above or below it would be refused. */}}
{{- define "lanyard.check.tokenPath" -}}
{{- include "lanyard.check.path" . -}}
{{- $all := .all -}}{{- $at := .at -}}{{- $own := printf "%s/" (toString .value) -}}
{{- range list "/var/run/secrets/kubernetes.io/serviceaccount" "/var/run/secrets/nemo-platform/ca" -}}
{{- $taken := printf "%s/" . -}}
{{- if or (hasPrefix $taken $own) (hasPrefix $own $taken) -}}
{{- include "lanyard.fault" (dict "all" $all "at" $at "say" (printf "must lie neither at, above nor below %s, which pods mount themselves or are given" .)) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* lanyard.check.audience: a non-empty word. */}}
{{- define "lanyard.check.audience" -}}
{{- if or (not (kindIs "string" .value)) (not (regexMatch "^[!-~]{1,253}$" (toString .value))) (contains "\"" (toString .value)) (contains "*" (toString .value)) -}}
{{- include "lanyard.fault" (dict "all" .all "at" .at "say" "must be one non-empty audience without spaces, such as platform.example.com") -}}
{{- end -}}
{{- end }}

{{/* lanyard.check.list: a list; says whether it is one ("true" or ""). */}}
{{- define "lanyard.check.list" -}}
{{- if kindIs "slice" .value -}}true{{- else -}}
{{- include "lanyard.fault" (dict "all" .all "at" .at "say" "must be a list; write [] for none: null and none are not the same statement") -}}
{{- end -}}
{{- end }}

{{/* lanyard.check.namespace: a namespace's name, not ours and not the system's. */}}
{{- define "lanyard.check.namespace" -}}
{{- if or (not (kindIs "string" .value)) (not (regexMatch "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$" (toString .value))) -}}
{{- include "lanyard.fault" (dict "all" .all "at" .at "say" "must be the literal name of one namespace (lower case, no pattern, no spaces)") -}}
{{- else if or (hasPrefix "kube-" .value) (eq .value .all.ns) -}}
{{- include "lanyard.fault" (dict "all" .all "at" .at "say" (printf "namespace %s may not be on this list: the system's and Lanyard's own namespaces stay out" .value)) -}}
{{- end -}}
{{- end }}

{{/* lanyard.check.account: a service account's canonical username, and none of ours. */}}
{{- define "lanyard.check.account" -}}
{{- $v := toString .value -}}
{{- $m := regexFind "^system:serviceaccount:[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?:[a-z0-9]([a-z0-9-]*[a-z0-9])?(\\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$" $v -}}
{{- if or (not (kindIs "string" .value)) (ne $m $v) (gt (len (last (splitList ":" $v))) 253) -}}
{{- include "lanyard.fault" (dict "all" .all "at" .at "say" "must be a canonical username, system:serviceaccount:<namespace>:<name>, in lower case and without spaces; nothing is trimmed or completed") -}}
{{- else if has $v .all.own -}}
{{- include "lanyard.fault" (dict "all" .all "at" .at "say" (printf "%s is one of Lanyard's own accounts and may not be on any list" $v)) -}}
{{- end -}}
{{- end }}

{{/* lanyard.check.username: a literal username that is not a crowd, and none of ours. */}}
{{- define "lanyard.check.username" -}}
{{- $v := toString .value -}}
{{- if or (not (kindIs "string" .value)) (not (regexMatch "^[^\\s*?\\[\\]\"\\\\]{1,320}$" $v)) -}}
{{- include "lanyard.fault" (dict "all" .all "at" .at "say" "must be one literal username without spaces or patterns") -}}
{{- else if has $v (list "system:authenticated" "system:unauthenticated" "system:anonymous" "system:masters" "system:nodes" "system:serviceaccounts") -}}
{{- include "lanyard.fault" (dict "all" .all "at" .at "say" (printf "%s is a crowd, not an identity" $v)) -}}
{{- else if hasPrefix "system:serviceaccount:" $v -}}
{{- include "lanyard.check.account" . -}}
{{- end -}}
{{- end }}

{{- define "lanyard.validate.auth" -}}
{{- $all := .all -}}{{- $root := .root -}}{{- $at := "global.platformConnectorAuth" -}}
{{- $global := $root.Values.global | default dict -}}
{{- $auth := $global.platformConnectorAuth -}}
{{- if not (kindIs "map" $auth) -}}
{{- include "lanyard.fault" (dict "all" $all "at" $at "say" "must be given, with at least enabled: true or false") -}}
{{- else -}}
{{- range $key, $_ := $auth -}}
{{- if not (has $key (list "enabled" "mode" "failOpenOnUnavailable" "audience" "tokenExpirationSeconds" "tokenMountPath" "crossNodeServiceAccounts")) -}}
{{- include "lanyard.fault" (dict "all" $all "at" (printf "%s.%s" $at $key) "say" "is not a setting; remove it or correct its spelling") -}}
{{- end -}}
{{- end -}}
{{- include "lanyard.check.bool" (dict "all" $all "at" (printf "%s.enabled" $at) "value" $auth.enabled) -}}
{{- if hasKey $auth "mode" -}}
{{- if not (and (kindIs "string" $auth.mode) (has $auth.mode (list "enforce" "audit"))) -}}
{{- include "lanyard.fault" (dict "all" $all "at" (printf "%s.mode" $at) "say" "must be enforce or audit; omit the key for enforce") -}}
{{- else if and (eq $auth.mode "audit") (not (and (kindIs "bool" $auth.enabled) $auth.enabled)) -}}
{{- include "lanyard.fault" (dict "all" $all "at" (printf "%s.mode" $at) "say" "audit requires enabled: true, since it validates every request") -}}
{{- end -}}
{{- end -}}
{{- if hasKey $auth "failOpenOnUnavailable" -}}
{{- include "lanyard.check.bool" (dict "all" $all "at" (printf "%s.failOpenOnUnavailable" $at) "value" $auth.failOpenOnUnavailable) -}}
{{- end -}}
{{- if and (kindIs "bool" $auth.enabled) $auth.enabled -}}
{{- include "lanyard.check.audience" (dict "all" $all "at" (printf "%s.audience" $at) "value" $auth.audience) -}}
{{- end -}}
{{- include "lanyard.check.seconds" (dict "all" $all "at" (printf "%s.tokenExpirationSeconds" $at) "value" $auth.tokenExpirationSeconds) -}}
{{- include "lanyard.check.tokenPath" (dict "all" $all "at" (printf "%s.tokenMountPath" $at) "value" $auth.tokenMountPath) -}}
{{- if hasKey $auth "crossNodeServiceAccounts" -}}
{{- $at := printf "%s.crossNodeServiceAccounts" $at -}}
{{- if include "lanyard.check.list" (dict "all" $all "at" $at "value" $auth.crossNodeServiceAccounts) -}}
{{- range $i, $entry := $auth.crossNodeServiceAccounts -}}
{{- include "lanyard.check.account" (dict "all" $all "at" (printf "%s[%d]" $at $i) "value" $entry) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range list "cspHealthMonitor" "kubernetesObjectMonitor" "nvcreCertificationMonitor" "slurmDrainMonitor" "healthEventsAnalyzer" -}}
{{- $monitor := get $global . -}}
{{- if and (kindIs "map" $monitor) (hasKey $monitor "enabled") -}}
{{- include "lanyard.check.bool" (dict "all" $all "at" (printf "global.%s.enabled" .) "value" $monitor.enabled) -}}
{{- else if and $monitor (not (kindIs "map" $monitor)) -}}
{{- include "lanyard.fault" (dict "all" $all "at" (printf "global.%s" .) "say" "must be a mapping with the key enabled") -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "lanyard.validate.jobs" -}}
{{- $all := .all -}}{{- $v := .root.Values -}}
{{- $auth := ($v.global | default dict).platformConnectorAuth | default dict -}}
{{- include "lanyard.check.bool" (dict "all" $all "at" "exchange.enabled" "value" $v.exchange.enabled) -}}
{{- if include "lanyard.check.list" (dict "all" $all "at" "publishers" "value" $v.publishers) -}}
{{- range $i, $entry := $v.publishers -}}
{{- $at := printf "publishers[%d]" $i -}}
{{- $parts := splitList "/" (toString $entry) -}}
{{- if or (not (kindIs "string" $entry)) (ne (len $parts) 2) -}}
{{- include "lanyard.fault" (dict "all" $all "at" $at "say" "must be written namespace/serviceAccount") -}}
{{- else -}}
{{- include "lanyard.check.account" (dict "all" $all "at" $at "value" (printf "system:serviceaccount:%s:%s" (first $parts) (last $parts))) -}}
{{- if hasPrefix "kube-" (first $parts) -}}
{{- include "lanyard.fault" (dict "all" $all "at" $at "say" "the webhook stays out of kube-* namespaces, so this account would never get a token; run the publisher elsewhere") -}}
{{- else if has (first $parts) ($v.admission.excludedNamespaces | default list) -}}
{{- include "lanyard.fault" (dict "all" $all "at" $at "say" "its namespace is on admission.excludedNamespaces, so this account would never get a token") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if include "lanyard.check.list" (dict "all" $all "at" "jobs.namespaces" "value" $v.jobs.namespaces) -}}
{{- range $i, $entry := $v.jobs.namespaces -}}
{{- include "lanyard.check.namespace" (dict "all" $all "at" (printf "jobs.namespaces[%d]" $i) "value" $entry) -}}
{{- if has $entry ($v.admission.excludedNamespaces | default list) -}}
{{- include "lanyard.fault" (dict "all" $all "at" (printf "jobs.namespaces[%d]" $i) "say" "is also on admission.excludedNamespaces; it can only be one of both") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- include "lanyard.check.audience" (dict "all" $all "at" "jobs.audience" "value" $v.jobs.audience) -}}
{{- if eq $v.jobs.audience (toString $auth.audience) -}}
{{- include "lanyard.fault" (dict "all" $all "at" "jobs.audience" "say" "must differ from global.platformConnectorAuth.audience: a token for both would be accepted by both") -}}
{{- end -}}
{{- include "lanyard.check.seconds" (dict "all" $all "at" "jobs.tokenExpirationSeconds" "value" $v.jobs.tokenExpirationSeconds) -}}
{{- include "lanyard.check.seconds" (dict "all" $all "at" "jobs.maxTokenExpirationSeconds" "value" $v.jobs.maxTokenExpirationSeconds) -}}
{{- if lt (float64 $v.jobs.maxTokenExpirationSeconds) (float64 $v.jobs.tokenExpirationSeconds) -}}
{{- include "lanyard.fault" (dict "all" $all "at" "jobs.maxTokenExpirationSeconds" "say" "must not be less than jobs.tokenExpirationSeconds") -}}
{{- end -}}
{{- include "lanyard.check.tokenPath" (dict "all" $all "at" "jobs.tokenMountPath" "value" $v.jobs.tokenMountPath) -}}
{{- $job := printf "%s/" (toString $v.jobs.tokenMountPath) -}}{{- $publisher := printf "%s/" (toString $auth.tokenMountPath) -}}
{{- if or (hasPrefix $job $publisher) (hasPrefix $publisher $job) -}}
{{- include "lanyard.fault" (dict "all" $all "at" "jobs.tokenMountPath" "say" "must lie neither at, above nor below global.platformConnectorAuth.tokenMountPath: a pod may carry both tokens") -}}
{{- end -}}
{{- if and $v.jobs.baseURL (not (regexMatch "^https://[^\\s/?#@]+(/[^\\s?#]*)?$" (toString $v.jobs.baseURL))) -}}
{{- include "lanyard.fault" (dict "all" $all "at" "jobs.baseURL" "say" "must be an https URL without user, query or fragment: jobs send their tokens there") -}}
{{- end -}}
{{- if include "lanyard.check.list" (dict "all" $all "at" "allowedSubmitterServiceAccounts" "value" $v.allowedSubmitterServiceAccounts) -}}
{{- range $i, $entry := $v.allowedSubmitterServiceAccounts -}}
{{- include "lanyard.check.account" (dict "all" $all "at" (printf "allowedSubmitterServiceAccounts[%d]" $i) "value" $entry) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "lanyard.validate.kinds" -}}
{{- $all := .all -}}{{- $v := .root.Values -}}
{{- if include "lanyard.check.list" (dict "all" $all "at" "jobKinds" "value" $v.jobKinds) -}}
{{- if and $v.exchange.enabled (not $v.jobKinds) -}}
{{- include "lanyard.fault" (dict "all" $all "at" "jobKinds" "say" "must name at least one kind while exchange.enabled is true") -}}
{{- end -}}
{{- range $i, $row := $v.jobKinds -}}
{{- $at := printf "jobKinds[%d]" $i -}}
{{- if not (kindIs "map" $row) -}}
{{- include "lanyard.fault" (dict "all" $all "at" $at "say" "must be a mapping with group, kind and podCreators") -}}
{{- else -}}
{{- if not (and (kindIs "string" $row.group) (regexMatch "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$" (toString $row.group))) -}}
{{- include "lanyard.fault" (dict "all" $all "at" (printf "%s.group" $at) "say" "must be the literal API group of the kind, such as batch") -}}
{{- end -}}
{{- if not (and (kindIs "string" $row.kind) (regexMatch "^[A-Z][A-Za-z0-9]*$" (toString $row.kind))) -}}
{{- include "lanyard.fault" (dict "all" $all "at" (printf "%s.kind" $at) "say" "must be the literal kind, such as Job") -}}
{{- end -}}
{{- if and (hasKey $row "resource") (not (and (kindIs "string" $row.resource) (regexMatch "^[a-z0-9]+$" (toString $row.resource)))) -}}
{{- include "lanyard.fault" (dict "all" $all "at" (printf "%s.resource" $at) "say" "must be the literal resource, such as jobs; omit it where it is the kind in lower case with an s") -}}
{{- end -}}
{{- if not (and (kindIs "slice" $row.podCreators) $row.podCreators) -}}
{{- include "lanyard.fault" (dict "all" $all "at" (printf "%s.podCreators" $at) "say" "must name the controllers that create the kind's pods: without them anybody could add a pod to somebody's job") -}}
{{- else -}}
{{- range $j, $creator := $row.podCreators -}}
{{- include "lanyard.check.username" (dict "all" $all "at" (printf "%s.podCreators[%d]" $at $j) "value" $creator) -}}
{{- end -}}
{{- end -}}
{{- if hasKey $row "templatePaths" -}}
{{- if eq (toString $row.group) "batch" -}}
{{- include "lanyard.fault" (dict "all" $all "at" (printf "%s.templatePaths" $at) "say" "is for custom kinds: of a Job spec.template is guarded, of a CronJob spec.jobTemplate; remove it") -}}
{{- else if not (and (kindIs "slice" $row.templatePaths) $row.templatePaths) -}}
{{- include "lanyard.fault" (dict "all" $all "at" (printf "%s.templatePaths" $at) "say" "must name at least one path; omit the key to guard all of spec but suspend") -}}
{{- else -}}
{{- range $j, $path := $row.templatePaths -}}
{{- if not (and (kindIs "string" $path) (regexMatch "^spec(\\.[A-Za-z][A-Za-z0-9]*){1,3}$" (toString $path))) -}}
{{- include "lanyard.fault" (dict "all" $all "at" (printf "%s.templatePaths[%d]" $at $j) "say" "must be a path of two to four keys from spec, such as spec.replicatedJobs; of a list, all is guarded") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if hasKey $row "adoptionLabels" -}}
{{- if include "lanyard.check.list" (dict "all" $all "at" (printf "%s.adoptionLabels" $at) "value" $row.adoptionLabels) -}}
{{- range $j, $label := $row.adoptionLabels -}}
{{- if not (and (kindIs "string" $label) (regexMatch "^([a-z0-9.-]+/)?[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$" (toString $label))) -}}
{{- include "lanyard.fault" (dict "all" $all "at" (printf "%s.adoptionLabels[%d]" $at $j) "say" "must be a literal label key") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if include "lanyard.check.list" (dict "all" $all "at" "templateEditors" "value" $v.templateEditors) -}}
{{- range $i, $entry := $v.templateEditors -}}
{{- include "lanyard.check.username" (dict "all" $all "at" (printf "templateEditors[%d]" $i) "value" $entry) -}}
{{- end -}}
{{- end -}}
{{- if include "lanyard.check.list" (dict "all" $all "at" "delegatingControllers" "value" $v.delegatingControllers) -}}
{{- range $i, $row := $v.delegatingControllers -}}
{{- $at := printf "delegatingControllers[%d]" $i -}}
{{- if not (kindIs "map" $row) -}}
{{- include "lanyard.fault" (dict "all" $all "at" $at "say" "must be a mapping with identity and parents") -}}
{{- else -}}
{{- include "lanyard.check.username" (dict "all" $all "at" (printf "%s.identity" $at) "value" $row.identity) -}}
{{- if not (and (kindIs "slice" $row.parents) $row.parents) -}}
{{- include "lanyard.fault" (dict "all" $all "at" (printf "%s.parents" $at) "say" "must name at least one parent kind as group/Kind") -}}
{{- else -}}
{{- range $j, $parent := $row.parents -}}
{{- if not (and (kindIs "string" $parent) (regexMatch "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Z][A-Za-z0-9]*$" (toString $parent))) -}}
{{- include "lanyard.fault" (dict "all" $all "at" (printf "%s.parents[%d]" $at $j) "say" "must be written group/Kind, such as batch/CronJob") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if hasKey $row "resources" -}}
{{- if not (kindIs "map" $row.resources) -}}
{{- include "lanyard.fault" (dict "all" $all "at" (printf "%s.resources" $at) "say" "must be a mapping of parents to their resources, such as example.com/Proxy: proxies") -}}
{{- else -}}
{{- range $parent, $resource := $row.resources -}}
{{- if not (and (kindIs "string" $resource) (regexMatch "^[a-z0-9]+$" (toString $resource))) -}}
{{- include "lanyard.fault" (dict "all" $all "at" (printf "%s.resources[%s]" $at $parent) "say" "must be the literal resource, such as cronjobs") -}}
{{- end -}}
{{- if not (has $parent ($row.parents | default list)) -}}
{{- include "lanyard.fault" (dict "all" $all "at" (printf "%s.resources[%s]" $at $parent) "say" "is none of the row's parents") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "lanyard.validate.admission" -}}
{{- $all := .all -}}{{- $v := .root.Values -}}
{{- include "lanyard.check.bool" (dict "all" $all "at" "admission.policies.enabled" "value" $v.admission.policies.enabled) -}}
{{- if and $v.exchange.enabled (not $v.admission.policies.enabled) -}}
{{- include "lanyard.fault" (dict "all" $all "at" "admission.policies.enabled" "say" "must be true while exchange.enabled is true: without the policies a creator's stamp proves nothing") -}}
{{- end -}}
{{- if not (and (kindIs "string" $v.admission.mode) (has $v.admission.mode (list "enforce" "audit"))) -}}
{{- include "lanyard.fault" (dict "all" $all "at" "admission.mode" "say" "must be enforce or audit") -}}
{{- end -}}
{{- range list "strictNames" "protectEndpoints" -}}
{{- include "lanyard.check.bool" (dict "all" $all "at" (printf "admission.%s" .) "value" (get $v.admission .)) -}}
{{- end -}}
{{- if include "lanyard.check.list" (dict "all" $all "at" "admission.excludedNamespaces" "value" $v.admission.excludedNamespaces) -}}
{{- range $i, $entry := $v.admission.excludedNamespaces -}}
{{- if not (and (kindIs "string" $entry) (regexMatch "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$" (toString $entry))) -}}
{{- include "lanyard.fault" (dict "all" $all "at" (printf "admission.excludedNamespaces[%d]" $i) "say" "must be the literal name of one namespace") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if include "lanyard.check.list" (dict "all" $all "at" "admission.tokenRequesters" "value" $v.admission.tokenRequesters) -}}
{{- range $i, $entry := $v.admission.tokenRequesters -}}
{{- include "lanyard.check.username" (dict "all" $all "at" (printf "admission.tokenRequesters[%d]" $i) "value" $entry) -}}
{{- end -}}
{{- end -}}
{{- $_ := include "lanyard.check.list" (dict "all" $all "at" "admission.skipContainers" "value" $v.admission.skipContainers) -}}
{{- $_ := include "lanyard.check.list" (dict "all" $all "at" "admission.extraTemplates" "value" $v.admission.extraTemplates) -}}
{{- if not (hasPrefix "https://" (toString $v.admission.docsURL)) -}}
{{- include "lanyard.fault" (dict "all" $all "at" "admission.docsURL" "say" "must be an https URL: messages send people there") -}}
{{- end -}}
{{- end }}

{{- define "lanyard.validate.certs" -}}
{{- $all := .all -}}{{- $v := .root.Values -}}
{{- include "lanyard.check.bool" (dict "all" $all "at" "certManager.enabled" "value" $v.certManager.enabled) -}}
{{- if $v.certManager.enabled -}}
{{- range list "existingSecret" "connectorSecret" "exchangeSecret" "caBundle" -}}
{{- if get $v.certs . -}}
{{- include "lanyard.fault" (dict "all" $all "at" (printf "certs.%s" .) "say" "is only for clusters without cert-manager; set certManager.enabled: false or leave it empty") -}}
{{- end -}}
{{- end -}}
{{- else -}}
{{- range list "existingSecret" "caBundle" -}}
{{- if not (get $v.certs .) -}}
{{- include "lanyard.fault" (dict "all" $all "at" (printf "certs.%s" .) "say" "must be given while certManager.enabled is false: the API server calls the webhook over TLS only") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}
