{{/*
lanyard.crossNode: the usernames that may name other nodes, as JSON: the enabled bundled monitors in the release's
namespace, sorted, then the extras, without duplicates.
*/}}
{{- define "lanyard.crossNode" -}}
{{- $derived := list }}
{{- range $switch, $name := dict "cspHealthMonitor" "csp-health-monitor" "kubernetesObjectMonitor" "kubernetes-object-monitor" "nvcreCertificationMonitor" "nvcre-certification-monitor" "slurmDrainMonitor" "slurm-drain-monitor" "healthEventsAnalyzer" "health-events-analyzer" }}
{{- if eq true ((get $.Values.global $switch | default dict).enabled | default false) }}
{{- $derived = append $derived (printf "system:serviceaccount:%s:%s" $.Release.Namespace $name) }}
{{- end }}
{{- end }}
{{- concat (sortAlpha $derived) (.Values.global.platformConnectorAuth.crossNodeServiceAccounts | default list) | uniq | toJson }}
{{- end }}

{{/* lanyard.own: the service accounts of our programs, as JSON. */}}
{{- define "lanyard.own" -}}
{{- $own := list }}
{{- range list "lanyard-connector" "lanyard-connector-deployment" "lanyard-exchange" }}
{{- $own = append $own (printf "system:serviceaccount:%s:%s" $.Release.Namespace .) }}
{{- end }}
{{- $own | toJson }}
{{- end }}

{{/* lanyard.excluded: the namespaces that are never managed, as JSON. */}}
{{- define "lanyard.excluded" -}}
{{- concat (list "kube-system" "kube-public" "kube-node-lease" .Release.Namespace) .Values.admission.excludedNamespaces | uniq | toJson }}
{{- end }}

{{- define "lanyard.baseURL" -}}
{{- .Values.jobs.baseURL | default (printf "https://lanyard-exchange.%s.svc:8443" .Release.Namespace) }}
{{- end }}

{{/*
lanyard.policy: everything that the policies and the webhook configurations hold as literals, as JSON. The fields are those
of policy.Settings and of the lists derived from it; a test holds both renderings together.
*/}}
{{- define "lanyard.policy" -}}
{{- include "lanyard.validate" . }}
{{- $auth := .Values.global.platformConnectorAuth }}
{{- $publisherAudience := $auth.enabled | ternary ($auth.audience | default "") "" }}
{{- $jobAudience := .Values.exchange.enabled | ternary .Values.jobs.audience "" }}
{{- $protected := list }}
{{- range list $publisherAudience $jobAudience }}{{ if . }}{{ $protected = append $protected . }}{{ end }}{{ end }}
{{- $kindNames := list }}{{ $adoption := list }}{{ $controllers := list }}
{{- $kinds := list }}{{/* of dicts: group, resource */}}{{ $seen := dict }}{{ $resources := dict }}
{{- $podCreators := dict }}{{ $labelCreators := dict }}{{ $ownerKinds := dict }}{{ $paths := list }}
{{- range .Values.jobKinds }}
{{- $name := printf "%s/%s" .group .kind }}
{{- $resource := .resource | default (printf "%ss" (lower .kind)) }}
{{- $kindNames = append $kindNames $name }}
{{- $adoption = concat $adoption (.adoptionLabels | default list) }}
{{- $controllers = concat $controllers .podCreators }}
{{- $row := . }}
{{- range list $podCreators $ownerKinds }}{{ $_ := set . $name (concat (get . $name | default list) $row.podCreators | sortAlpha | uniq) }}{{ end }}
{{- range .adoptionLabels | default list }}{{ $_ := set $labelCreators . (concat (get $labelCreators . | default list) $row.podCreators | sortAlpha | uniq) }}{{ end }}
{{- range .templatePaths | default list }}{{ $paths = append $paths (printf "%s:%s" $name .) }}{{ end }}
{{- if not (hasKey $resources $name) }}{{ $_ := set $resources $name $resource }}{{ end }}
{{- if not (hasKey $seen (printf "%s/%s" .group $resource)) }}
{{- $kinds = append $kinds (dict "group" .group "resource" $resource) }}{{ $_ := set $seen (printf "%s/%s" .group $resource) true }}
{{- end }}
{{- end }}
{{- range .Values.delegatingControllers }}
{{- range $parent, $resource := .resources | default dict }}
{{- if not (hasKey $resources $parent) }}{{ $_ := set $resources $parent $resource }}{{ end }}
{{- end }}
{{- end }}
{{- range .Values.delegatingControllers }}
{{- $controllers = append $controllers .identity }}
{{- $identity := .identity }}
{{- range .parents }}
{{- $_ := set $ownerKinds . (append (get $ownerKinds . | default list) $identity | sortAlpha | uniq) }}
{{- $parts := splitList "/" . }}
{{- $resource := get $resources . | default (printf "%ss" (lower (last $parts))) }}
{{- if not (hasKey $seen (printf "%s/%s" (first $parts) $resource)) }}
{{- $kinds = append $kinds (dict "group" (first $parts) "resource" $resource) }}{{ $_ := set $seen (printf "%s/%s" (first $parts) $resource) true }}
{{- end }}
{{- end }}
{{- end }}
{{- $stamped := list }}
{{- range concat (list (dict "group" "" "resource" "pods")) $kinds }}
{{- $stamped = append $stamped (dict "apiGroups" (list .group) "apiVersions" (list "*") "operations" (list "CREATE" "UPDATE") "resources" (list .resource (printf "%s/status" .resource)) "scope" "Namespaced") }}
{{- end }}
{{- $settings := dict
  "mode" .Values.admission.mode
  "jobs" .Values.exchange.enabled
  "publisherAudience" $publisherAudience
  "jobAudience" $jobAudience
  "protected" $protected
  "jobTokenFile" (printf "%s/token" .Values.jobs.tokenMountPath)
  "publishers" (sortAlpha .Values.publishers | uniq)
  "publisherAccounts" (include "lanyard.crossNode" . | fromJsonArray | sortAlpha | uniq)
  "releaseAccounts" (include "lanyard.own" . | fromJsonArray | sortAlpha | uniq)
  "tokenRequesters" (sortAlpha .Values.admission.tokenRequesters | uniq)
  "kindNames" (sortAlpha $kindNames | uniq)
  "adoptionLabels" (sortAlpha $adoption | uniq)
  "controllers" (sortAlpha $controllers | uniq)
  "submitters" (sortAlpha .Values.allowedSubmitterServiceAccounts | uniq)
  "podCreators" $podCreators
  "labelCreators" $labelCreators
  "ownerKinds" $ownerKinds
  "templateEditors" (sortAlpha .Values.templateEditors | uniq)
  "templatePaths" (sortAlpha $paths | uniq)
  "excludedNamespaces" (include "lanyard.excluded" . | fromJsonArray | sortAlpha | uniq)
  "reservedActions" (eq .Values.admission.mode "audit" | ternary (list "Audit" "Warn") (list "Deny"))
  "stamped" $stamped
  "kinds" $kinds
  "socketConnector" (printf "system:serviceaccount:%s:lanyard-connector" .Release.Namespace)
  "foreignConditions" (sortAlpha .Values.connector.foreignConditions | uniq)
}}
{{- $settings | toJson }}
{{- end }}

{{/* lanyard.config: the webhook's configuration file, as YAML. */}}
{{- define "lanyard.config" -}}
{{- include "lanyard.validate" . }}
{{- $auth := .Values.global.platformConnectorAuth }}
{{- $publisher := dict "enabled" $auth.enabled }}
{{- if $auth.enabled }}
{{- $publisher = dict "enabled" true
  "audience" $auth.audience
  "tokenExpirationSeconds" (int64 $auth.tokenExpirationSeconds)
  "maxTokenExpirationSeconds" (max 86400 (int64 $auth.tokenExpirationSeconds))
  "tokenMountPath" $auth.tokenMountPath
  "listed" .Values.publishers
  "crossNode" (include "lanyard.crossNode" . | fromJsonArray)
  "caConfigMap" (.Values.connector.deployment.enabled | ternary .Values.jobs.caConfigMap.name "") }}
{{- end }}
{{- $job := dict "enabled" false }}
{{- if .Values.exchange.enabled }}
{{- $kinds := list }}
{{- range .Values.jobKinds }}{{ $kinds = append $kinds (omit . "templatePaths") }}{{ end }}
{{- $job = dict "enabled" true
  "audience" .Values.jobs.audience
  "tokenExpirationSeconds" (int64 .Values.jobs.tokenExpirationSeconds)
  "maxTokenExpirationSeconds" (int64 .Values.jobs.maxTokenExpirationSeconds)
  "tokenMountPath" .Values.jobs.tokenMountPath
  "baseURL" (include "lanyard.baseURL" .)
  "caConfigMap" .Values.jobs.caConfigMap.name
  "kinds" $kinds }}
{{- end }}
{{- $limits := dict
  "maxBodyBytes" (int64 .Values.webhook.limits.maxBodyBytes)
  "maxInFlight" (int64 .Values.webhook.limits.maxInFlight)
  "maxInFlightBytes" (int64 .Values.webhook.limits.maxInFlightBytes) }}
{{- $config := dict
  "admission" (dict "mode" .Values.admission.mode "strictNames" .Values.admission.strictNames "protectEndpoints" .Values.admission.protectEndpoints)
  "injection" (dict "skipContainers" .Values.admission.skipContainers)
  "publisher" $publisher
  "job" $job
  "docsURL" .Values.admission.docsURL
  "limits" $limits }}
{{- if .Values.exchange.enabled }}
{{- $delegating := list }}
{{- range .Values.delegatingControllers }}{{ $delegating = append $delegating (omit . "resources") }}{{ end }}
{{- $_ := set $config "delegatingControllers" $delegating }}
{{- end }}
{{- $config | toYaml }}
{{- end }}
