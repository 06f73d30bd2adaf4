{{/* What every webhook entry has in common. Takes (dict "root" . "path" PATH). */}}
{{- define "lanyard.webhook.client" -}}
admissionReviewVersions: [v1]
clientConfig:
  service:
    name: lanyard-webhook
    namespace: {{ .root.Release.Namespace }}
    path: {{ .path }}
    port: 443
  {{- if not .root.Values.certManager.enabled }}
  caBundle: {{ .root.Values.certs.caBundle | quote }}
  {{- end }}
matchPolicy: Equivalent
sideEffects: None
timeoutSeconds: {{ int64 .root.Values.webhook.timeoutSeconds }}
{{- end }}

{{/* The annotation that has cert-manager write the caBundle: from the CA's certificate, not the leaf's, unless an issuer of yours signs. */}}
{{- define "lanyard.webhook.injectCA" -}}
{{- if .Values.certManager.enabled -}}
annotations:
  cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/{{ .Values.certManager.issuerRef | empty | ternary "lanyard-ca" "lanyard-webhook-tls" }}
{{- end -}}
{{- end }}

{{/* One rule of an entry. Takes group, resource, operations. */}}
{{- define "lanyard.webhook.rule" -}}
- apiGroups: [{{ .group | quote }}]
  apiVersions: ["*"]
  operations: {{ .operations | toJson }}
  resources: [{{ .resource | quote }}]
  scope: Namespaced
{{- end }}

{{- define "lanyard.webhook.podRules" -}}
{{ include "lanyard.webhook.rule" (dict "group" "" "resource" "pods" "operations" (list "CREATE")) }}
{{ include "lanyard.webhook.rule" (dict "group" "" "resource" "pods/ephemeralcontainers" "operations" (list "UPDATE")) }}
{{- end }}

{{/* The expressions that every namespaceSelector has. Takes (dict "root" . "excluded" LIST). */}}
{{- define "lanyard.webhook.expressions" -}}
matchExpressions:
  - key: kubernetes.io/metadata.name
    operator: NotIn
    values: {{ .excluded | toJson }}
  {{- with .root.Values.webhook.extraNamespaceSelector }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "lanyard.webhook.managed" -}}
matchLabels:
  lanyard.dev/jobs: managed
{{ include "lanyard.webhook.expressions" (dict "root" . "excluded" (include "lanyard.excluded" . | fromJsonArray)) }}
{{- end }}

{{- define "lanyard.webhook.publishers" -}}
matchLabels:
  lanyard.dev/publishers: enabled
{{ include "lanyard.webhook.expressions" (dict "root" . "excluded" (include "lanyard.excluded" . | fromJsonArray)) }}
{{- end }}

{{/*
Listed publishers may live in the release's own namespace, so it is not excluded here; the conditions never name Lanyard's
own accounts, so an outage cannot keep our own pods from starting.
*/}}
{{- define "lanyard.webhook.listed" -}}
{{- $namespaces := list }}
{{- range .Values.publishers }}{{ $namespaces = append $namespaces (first (splitList "/" .)) }}{{ end -}}
{{ include "lanyard.webhook.expressions" (dict "root" . "excluded" (concat (list "kube-system" "kube-public" "kube-node-lease") .Values.admission.excludedNamespaces | uniq)) }}
  - key: kubernetes.io/metadata.name
    operator: In
    values: {{ sortAlpha $namespaces | uniq | toJson }}
{{- end }}

{{- define "lanyard.webhook.isListed" -}}
- name: is-a-listed-publisher
  expression: >-
    (request.namespace + '/' +
    (object.?spec.?serviceAccountName.orValue('') == '' ? 'default' : object.spec.serviceAccountName))
    in {{ .Values.publishers | toJson }}
{{- end }}
