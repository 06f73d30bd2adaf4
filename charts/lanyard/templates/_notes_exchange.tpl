{{/* What the notes say of managed jobs and the exchange. */}}
{{- define "lanyard.notes.exchange" -}}
{{- $v := .Values.exchange }}{{- $ns := .Release.Namespace }}
{{- if not $v.enabled }}
exchange.enabled is false: no job gets a subject token, and creators are not stamped. For managed jobs set exchange.enabled: true.
{{ else if not (include "lanyard.exchange.on" .) }}
exchange.replicas is 0: the rules of managed jobs are in force, jobs carry their subject tokens, and no program exchanges them.
Next, before people submit: exchange.replicas: 1. What was submitted before the exchange's first start never gets an identity.
{{ else }}
The exchange answers at {{ include "lanyard.baseURL" . }}; its tokens name {{ $v.issuer | default (include "lanyard.baseURL" .) }}.
Admins see and revoke records by kubectl -n {{ $ns }} port-forward deploy/lanyard-exchange 8444, with a token of audience lanyard-admin.
Gateways in front of models are configured by what is in ConfigMap lanyard-gateway.
{{ if and (eq $v.store.driver "sqlite") }}
Its records are in one file on PersistentVolumeClaim lanyard-exchange-store: one replica, which an upgrade stops first. Use
exchange.store.driver: postgres where jobs must not wait. If its pod stays Pending, the claim finds no storage class: set
exchange.store.persistence.storageClassName.
{{ else }}
Its pods wait for Secret {{ $v.store.connectionSecret.name }} with the database's connection string under {{ $v.store.connectionSecret.key }}:

  kubectl -n {{ $ns }} create secret generic {{ $v.store.connectionSecret.name }} --from-file={{ $v.store.connectionSecret.key }}=FILE{{ with $v.store.connectionSecret.listenKey }} --from-file={{ . }}=FILE{{ end }}
{{ end }}
{{- if and .Values.jobs.caConfigMap.manage (not (without (include "lanyard.exchange.told" . | fromJsonArray) $ns)) }}
WARNING: jobs.namespaces is empty, so the exchange may write ConfigMap {{ .Values.jobs.caConfigMap.name }} in no managed namespace, and jobs do not know its CA certificate.
Name the managed namespaces there (helm upgrade --reset-then-reuse-values --set 'jobs.namespaces={NAMESPACE}'), or set
jobs.caConfigMap.manage: false and hand the certificate out yourself.
{{ end }}
{{- if and .Values.jobs.baseURL (not $v.issuer) (not .Values.gateway.namespaces) .Values.networkPolicy.enabled }}
jobs.baseURL is another name than the exchange's Service: name the namespace of what leads there in gateway.namespaces, or the
network policy keeps it out.
{{ end }}
{{- end }}
{{- if and $v.enabled .Values.admission.policies.enabled }}
In managed namespaces people cannot exec into pods, forward their ports, add debug containers or change their images; platform
admins can (no images). Whoever must place suspended Jobs of others, such as Kueue, belongs on templateEditors.
{{ end }}
{{- end }}
