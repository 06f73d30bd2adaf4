{{/*
The checks of what concerns nodes and the network, and of Kubernetes' own notations; _validate.tpl says how checks are written. The schema
has the same patterns.
*/}}

{{- define "lanyard.validate.cluster" -}}
{{- $all := .all -}}{{- $v := .root.Values -}}
{{- if hasPrefix "kube-" $all.ns -}}
{{- include "lanyard.fault" (dict "all" $all "at" "--namespace" "say" (printf "%s is the system's; the webhook stays out of it, and whoever may write there may act as Lanyard's accounts. Give Lanyard a namespace of its own" $all.ns)) -}}
{{- end -}}
{{- if $v.tests.namespace -}}
{{- include "lanyard.check.namespace" (dict "all" $all "at" "tests.namespace" "value" $v.tests.namespace) -}}
{{- if has $v.tests.namespace ($v.admission.excludedNamespaces | default list) -}}
{{- include "lanyard.fault" (dict "all" $all "at" "tests.namespace" "say" "is on admission.excludedNamespaces, where the webhook is never called: the test could only fail") -}}
{{- end -}}
{{- end -}}
{{- include "lanyard.validate.metadata" . -}}
{{- include "lanyard.validate.limits" . -}}
{{- with $v.podSecurity -}}
{{- include "lanyard.check.bool" (dict "all" $all "at" "podSecurity.fixedUser" "value" .fixedUser) -}}
{{- end -}}
{{- if not (has ($v.webhook.spreadOverNodes | default "ScheduleAnyway") (list "ScheduleAnyway" "DoNotSchedule")) -}}
{{- include "lanyard.fault" (dict "all" $all "at" "webhook.spreadOverNodes" "say" "must be ScheduleAnyway or DoNotSchedule") -}}
{{- end -}}
{{- range $key := list "apiServerCIDRs" "databaseCIDRs" -}}
{{- $at := printf "networkPolicy.%s" $key -}}
{{- if include "lanyard.check.list" (dict "all" $all "at" $at "value" (get $v.networkPolicy $key)) -}}
{{- range $i, $entry := get $v.networkPolicy $key -}}
{{- include "lanyard.check.cidr" (dict "all" $all "at" (printf "%s[%d]" $at $i) "value" $entry) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (eq (toString $v.jobs.networkPolicy.enabled) "true") (not $v.jobs.namespaces) -}}
{{- include "lanyard.fault" (dict "all" $all "at" "jobs.namespaces" "say" "must name the managed namespaces while jobs.networkPolicy.enabled is true: the policy is made in these, so that with none no job is held back") -}}
{{- end -}}
{{- range $at, $resources := dict "webhook.resources" $v.webhook.resources "exchange.resources" $v.exchange.resources "connector.socket.resources" $v.connector.socket.resources "connector.deployment.resources" $v.connector.deployment.resources -}}
{{- range $kind := list "requests" "limits" -}}
{{- range $name, $quantity := (get ($resources | default dict) $kind) | default dict -}}
{{- include "lanyard.check.quantity" (dict "all" $all "at" (printf "%s.%s.%s" $at $kind $name) "value" $quantity) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* lanyard.check.cidr: an IPv4 or IPv6 network. A NetworkPolicy with anything else is refused by the API server, halfway through an install. */}}
{{- define "lanyard.check.cidr" -}}
{{- $v4 := "^((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])\\.){3}(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])/(3[0-2]|[12]?[0-9])$" -}}
{{- $v6 := "^(([0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}|([0-9a-fA-F]{1,4}:){1,7}:|([0-9a-fA-F]{1,4}:){1,6}(:[0-9a-fA-F]{1,4}){1,1}|([0-9a-fA-F]{1,4}:){1,5}(:[0-9a-fA-F]{1,4}){1,2}|([0-9a-fA-F]{1,4}:){1,4}(:[0-9a-fA-F]{1,4}){1,3}|([0-9a-fA-F]{1,4}:){1,3}(:[0-9a-fA-F]{1,4}){1,4}|([0-9a-fA-F]{1,4}:){1,2}(:[0-9a-fA-F]{1,4}){1,5}|[0-9a-fA-F]{1,4}:(:[0-9a-fA-F]{1,4}){1,6}|:((:[0-9a-fA-F]{1,4}){1,7}|:))/(12[0-8]|1[01][0-9]|[1-9]?[0-9])$" -}}
{{- if not (and (kindIs "string" .value) (or (regexMatch $v4 (toString .value)) (regexMatch $v6 (toString .value)))) -}}
{{- include "lanyard.fault" (dict "all" .all "at" .at "say" "must be a network in CIDR notation, IPv4 or IPv6, such as 10.0.0.0/24, 2001:db8::/64, or 10.0.0.1/32 for one address") -}}
{{- end -}}
{{- end }}

{{/* lanyard.check.quantity: a quantity in Kubernetes' notation. */}}
{{- define "lanyard.check.quantity" -}}
{{- $number := or (kindIs "float64" .value) (kindIs "int64" .value) (kindIs "int" .value) -}}
{{- if not (or $number (and (kindIs "string" .value) (regexMatch "^([0-9]+(\\.[0-9]*)?|\\.[0-9]+)([eE][+-]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?$" (toString .value)))) -}}
{{- include "lanyard.fault" (dict "all" .all "at" .at "say" "must be a quantity such as 100m, 2, 64Mi or 1Gi") -}}
{{- else if and $number (lt (float64 .value) 0.0) -}}
{{- include "lanyard.fault" (dict "all" .all "at" .at "say" "must be a quantity such as 100m, 2, 64Mi or 1Gi, and not negative") -}}
{{- end -}}
{{- end }}

{{/*
lanyard.check.hostDir: a host's directory that is ours alone. Every publisher mounts the socket's, and the connector, as uid 0, writes to
all of them: a directory of the system's, or one that holds such, would be given away.
*/}}
{{- define "lanyard.check.hostDir" -}}
{{- if include "lanyard.systems" .value -}}
{{- include "lanyard.fault" (dict "all" .all "at" .at "say" (printf "must be a directory of Lanyard's own, such as /var/run/nvsentinel or /var/lib/lanyard/spool: %s is the system's, or holds what is, and whoever mounts it would reach that" (toString .value))) -}}
{{- else -}}
{{- include "lanyard.check.path" . -}}
{{- end -}}
{{- end }}

{{/* lanyard.check.hostSocket: a socket of the host's, whose directory the DaemonSet mounts as uid 0, so that it may be no more than that. */}}
{{- define "lanyard.check.hostSocket" -}}
{{- $dir := dir (toString .value) -}}
{{- if or (eq $dir "/") (include "lanyard.systems" $dir) -}}
{{- include "lanyard.fault" (dict "all" .all "at" .at "say" (printf "must lie in a directory of another connector's own, such as /var/run/nvsentinel: %s is the system's, or holds what is, and the DaemonSet would mount it" $dir)) -}}
{{- else -}}
{{- include "lanyard.check.path" . -}}
{{- end -}}
{{- end }}

{{/* lanyard.systems: whether a host's directory is the system's, or holds what is ("true" or ""). */}}
{{- define "lanyard.systems" -}}
{{- $of := "^/(bin|boot|dev|etc|lib|lib32|lib64|proc|root|sbin|sys|usr)(/|$)" -}}
{{- $kept := "^(/var/lib/(cni|containerd|containers|docker|etcd|kubelet|kube-proxy|rancher|systemd)|/var/log|/opt/cni|(/var)?/run/(containerd|containers|crio|dbus|docker|flannel|k3s|lock|netns|secrets|systemd|udev|user))(/|$)" -}}
{{- $above := "^/(home|media|mnt|opt|run|srv|tmp|var|var/(cache|lib|opt|run|spool|tmp))$" -}}
{{- $sock := "\\.sock(/|$)" -}}
{{- $v := toString . -}}
{{- if or (regexMatch $of $v) (regexMatch $kept $v) (regexMatch $above $v) (regexMatch $sock $v) -}}true{{- end -}}
{{- end }}
