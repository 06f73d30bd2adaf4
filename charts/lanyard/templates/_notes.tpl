{{/* What an admin reads after an install or upgrade; a named template, so that tests can render it. */}}
{{- define "lanyard.notes" -}}
{{- $auth := .Values.global.platformConnectorAuth }}
{{- $ns := .Release.Namespace }}
Lanyard {{ .Chart.AppVersion }} stands in namespace {{ $ns }}.
{{- if and (eq .Values.image.repository "lanyard-k8s/lanyard") (not .Values.image.digest) }}

WARNING: the image is {{ include "lanyard.image" . | trimAll "\"" }}, the chart's default name, under which nothing is published yet.
Unless every node has such an image already, pods end in ImagePullBackOff: build one, push it, and set image.repository and
image.tag or image.digest.
{{- end }}
{{ if eq .Values.admission.mode "audit" }}
admission.mode is audit: reserved names, paths and look-alikes only warn and count. When
lanyard_admission_violations_total stays at zero, set admission.mode: enforce.
{{ else }}
admission.mode is enforce. On a cluster where jobs run already, begin with admission.mode: audit, and change to enforce when
lanyard_admission_violations_total stays at zero.
{{ end }}
{{- if not .Values.admission.policies.enabled }}
WARNING: the policies are off. The API server refuses nothing by itself; only the webhook answers. Turn them on as soon as the
cluster allows it: admission.policies.enabled: true.
{{ end }}
{{- if not $auth.enabled }}
WARNING: global.platformConnectorAuth.enabled is false. Publishers get no token, and any caller that reaches the connector's
socket may name any node. This is not a supported production configuration. Next: enabled: true with mode: audit, and without mode when
platform_connector_auth_violations_total stays at zero.
{{ end }}
{{- if and (eq (int64 .Values.webhook.replicas) 1) (or $auth.enabled .Values.exchange.enabled) }}
WARNING: webhook.replicas is 1, and its entries fail closed: while that one pod moves to another node, nobody creates pods in managed
namespaces nor publishers' pods. Two replicas are the least for a cluster that people use.
{{ end }}
{{- include "lanyard.notes.connector" . }}
{{- include "lanyard.notes.exchange" . }}
{{- if and .Values.networkPolicy.enabled (not .Values.networkPolicy.apiServerCIDRs) }}
WARNING: networkPolicy.apiServerCIDRs is empty, so anyone in the cluster may reach the webhook's port, and the connectors may
reach any address. A forged review earns nothing, but a list of the API servers' addresses keeps strangers out.
{{ end }}
{{- if not .Values.certManager.enabled }}
cert-manager is not used. Pods wait for these Secrets; make them, and renew them and certs.caBundle yourself, in time and together:

  kubectl -n {{ $ns }} create secret tls {{ .Values.certs.existingSecret }} --cert=tls.crt --key=tls.key   # for lanyard-webhook.{{ $ns }}.svc
{{- if .Values.connector.deployment.enabled }}
  kubectl -n {{ $ns }} create secret tls {{ .Values.certs.connectorSecret }} --cert=tls.crt --key=tls.key   # for lanyard-connector.{{ $ns }}.svc
{{- end }}
{{- if include "lanyard.exchange.on" . }}
  kubectl -n {{ $ns }} create secret generic {{ .Values.certs.exchangeSecret }} --from-file=tls.crt --from-file=tls.key --from-file=ca.crt   # for lanyard-exchange.{{ $ns }}.svc
{{- end }}
{{ end }}
{{- if ne ($auth.audience | default "") "platform-connector.nvsentinel.nvidia.com" }}{{ if $auth.enabled }}
The publishers' audience is {{ $auth.audience }}. Changing an audience has an order (connector and publishers): see
docs/upgrade.md#change-audience-or-tokenmountpath.
{{ end }}{{ end }}
{{- if and $auth.enabled (ne $auth.tokenMountPath "/var/run/secrets/nvsentinel/platform-connector") }}
The publishers' token is mounted at {{ $auth.tokenMountPath }}. Publishers that were told another path must be told.
{{ end }}
{{- $bundled := list }}
{{- range $auth.crossNodeServiceAccounts | default list }}
{{- $name := last (splitList ":" .) }}
{{- if has $name (list "csp-health-monitor" "kubernetes-object-monitor" "nvcre-certification-monitor" "slurm-drain-monitor" "health-events-analyzer") }}{{ $bundled = append $bundled . }}{{ end }}
{{- end }}
{{- if $bundled }}
global.platformConnectorAuth.crossNodeServiceAccounts lists bundled monitors: {{ join ", " $bundled }}.
Remove them: they are derived from the release's namespace for whichever of them are enabled.
{{ end }}
Next steps, by a platform admin (bind ClusterRole lanyard-platform-admin to those who are not cluster admins). The chart
labels no namespace:
{{ if .Values.exchange.enabled }}{{ range .Values.jobs.namespaces }}
  kubectl label namespace {{ . }} lanyard.dev/jobs=managed
{{- else }}
  kubectl label namespace NAMESPACE lanyard.dev/jobs=managed        # jobs there act for those who submit them
{{- end }}{{ end }}{{ if $auth.enabled }}
  kubectl label namespace NAMESPACE lanyard.dev/publishers=enabled  # pods there may ask for lanyard.dev/role: publisher
{{- end }}

Look around:

  kubectl -n {{ $ns }} get pods{{ if .Values.certManager.enabled }},certificates{{ end }}
  kubectl get validatingadmissionpolicies -l app.kubernetes.io/part-of=lanyard
  lanyard doctor --namespace {{ $ns }}{{ if not .Values.certManager.enabled }} --webhook-secret {{ .Values.certs.existingSecret }}{{ end }}
{{- if and (or .Values.tests.namespace .Values.jobs.namespaces) .Values.exchange.enabled (ne .Values.admission.mode "audit") }}
  helm -n {{ $ns }} test {{ .Release.Name }}
{{- end }}

{{ if not .Values.monitoring.prometheusRule.enabled }}
Alerts, dashboards and scraping are off: monitoring.prometheusRule.enabled, monitoring.dashboard.enabled and
monitoring.podMonitor.enabled, once Prometheus' operator is in the cluster.
{{ else if not (or .Values.monitoring.podMonitor.enabled .Values.monitoring.serviceMonitor.enabled) }}
WARNING: alerts are on and scraping is off. Unless something else scrapes the programs, LanyardWebhookDown and
LanyardExchangeDown fire for ever: monitoring.podMonitor.enabled, or monitoring.serviceMonitor.enabled.
{{ end }}
{{- if and .Values.monitoring.podMonitor.enabled .Values.monitoring.serviceMonitor.enabled }}
WARNING: monitoring.podMonitor and monitoring.serviceMonitor are both on, so everything is counted twice. Keep one.
{{ end }}
An uninstall keeps the labels of namespaces
{{- if and (include "lanyard.exchange.on" .) .Values.exchange.keepData }}, and the exchange's data: Secret lanyard-exchange-keys
{{- if eq .Values.exchange.store.driver "sqlite" }} and PersistentVolumeClaim lanyard-exchange-store{{ end }}{{ end }}.
{{- end }}
