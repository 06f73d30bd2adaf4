{{/*
The checks of labels and annotations, of the webhook's limits, and of values that are another chart's; _validate.tpl says how checks are
written. The schema has the same patterns.
*/}}

{{/*
lanyard.validate.complete: every section is there. helm upgrade --reuse-values puts the values of an older chart, its defaults among them, in
place of this one's, and nothing could be said of a section that it did not have.
*/}}
{{- define "lanyard.validate.complete" -}}
{{- $all := .all -}}{{- $v := .root.Values -}}
{{- range list "image" "jobs" "exchange" "gateway" "connector" "admission" "webhook" "certManager" "certs" "networkPolicy" "monitoring" "uninstallHook" "tests" -}}
{{- if not (kindIs "map" (get $v .)) -}}
{{- include "lanyard.fault" (dict "all" $all "at" . "say" "must be a section of its own, as in this chart's values.yaml; where an older chart's values lack it, upgrade without --reuse-values (--reset-then-reuse-values, or -f)") -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* What stands on objects and pods besides the chart's own. */}}
{{- define "lanyard.validate.metadata" -}}
{{- $all := .all -}}{{- $v := .root.Values -}}
{{- $own := dict "commonLabels" $v.commonLabels -}}
{{- $labels := dict -}}
{{- range $at, $p := dict "webhook" $v.webhook "exchange" $v.exchange "connector.socket" $v.connector.socket "connector.deployment" $v.connector.deployment -}}
{{- $_ := set $own (printf "%s.podLabels" $at) $p.podLabels -}}
{{- $_ := set $labels (printf "%s.nodeSelector" $at) $p.nodeSelector -}}
{{- range list "podAnnotations" "serviceAnnotations" "serviceAccountAnnotations" -}}
{{- include "lanyard.check.map" (dict "all" $all "at" (printf "%s.%s" $at .) "value" (index $p .) "kind" "annotation") -}}
{{- end -}}
{{- end -}}
{{- range $name, $m := $v.monitoring -}}
{{- $_ := set $labels (printf "monitoring.%s.labels" $name) ($m | default dict).labels -}}
{{- end -}}
{{- range $at, $map := merge (dict) $own $labels -}}
{{- include "lanyard.check.map" (dict "all" $all "at" $at "value" $map "kind" "label") -}}
{{- end -}}
{{- range $at, $map := $own -}}
{{- range $key, $_ := $map -}}
{{- if regexMatch "^(app\\.kubernetes\\.io|helm\\.sh|lanyard\\.dev)/" $key -}}
{{- include "lanyard.fault" (dict "all" $all "at" $at "say" (printf "%s is the chart's or Lanyard's own; selectors, policies and the uninstall go by it" $key)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* lanyard.check.map: labels or annotations. Takes "all" "at" "value" "kind". */}}
{{- define "lanyard.check.map" -}}
{{- $c := . -}}
{{- $prefix := eq .kind "label" | ternary "[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?" "[A-Za-z0-9]([-A-Za-z0-9.]{0,251}[A-Za-z0-9])?" -}}
{{- range $key, $value := .value -}}
{{- if not (regexMatch (printf "^(%s/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$" $prefix) $key) -}}
{{- include "lanyard.fault" (dict "all" $c.all "at" $c.at "say" (printf "\"%s\" is no %s's key: at most 63 letters, digits, '-', '_' and '.', with a domain and a slash before them or none" $key $c.kind)) -}}
{{- end -}}
{{- if not (kindIs "string" $value) -}}
{{- include "lanyard.fault" (dict "all" $c.all "at" (printf "%s.%s" $c.at $key) "say" "must be a string; write numbers, true and false in quotes") -}}
{{- else if and (eq $c.kind "label") (not (regexMatch "^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$" $value)) -}}
{{- include "lanyard.fault" (dict "all" $c.all "at" (printf "%s.%s" $c.at $key) "say" "must be a label's value: at most 63 letters, digits, '-', '_' and '.'") -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* The webhook's limits, within what its program takes. */}}
{{- define "lanyard.validate.limits" -}}
{{- $all := .all -}}{{- $l := .root.Values.webhook.limits | default dict -}}
{{- $bad := list -}}
{{- range $key, $bounds := dict "maxBodyBytes" (list 65536 67108864) "maxInFlight" (list 1 65536) "maxInFlightBytes" (list 65536 1099511627776) -}}
{{- $n := get $l $key -}}
{{- if or (not (or (kindIs "float64" $n) (kindIs "int64" $n) (kindIs "int" $n))) (ne (floor $n) (float64 $n)) (lt (float64 $n) (float64 (first $bounds))) (gt (float64 $n) (float64 (last $bounds))) -}}
{{- $bad = append $bad $key -}}
{{- include "lanyard.fault" (dict "all" $all "at" (printf "webhook.limits.%s" $key) "say" (printf "must be a whole number from %d to %d" (first $bounds) (last $bounds))) -}}
{{- end -}}
{{- end -}}
{{- if and (not $bad) (lt (int64 $l.maxInFlightBytes) (int64 $l.maxBodyBytes)) -}}
{{- include "lanyard.fault" (dict "all" $all "at" "webhook.limits.maxInFlightBytes" "say" "must be at least webhook.limits.maxBodyBytes, or the largest allowed review could never be answered; it wants memory as well (webhook.resources)") -}}
{{- end -}}
{{- end }}
