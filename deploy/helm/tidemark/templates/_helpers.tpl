{{- define "tidemark.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* At most 40 characters: the pods' names, the members' Service and its DNS name add to it. */}}
{{- define "tidemark.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "tidemark.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "tidemark.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "tidemark.members" -}}
{{- printf "%s-members" (include "tidemark.fullname" .) -}}
{{- end -}}

{{- define "tidemark.selector" -}}
app.kubernetes.io/name: {{ include "tidemark.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tidemark.labels" -}}
{{ include "tidemark.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
{{- end -}}

{{- define "tidemark.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "tidemark.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* http, or https where the configuration has a certificate. */}}
{{- define "tidemark.scheme" -}}
{{- if dig "http" "tls" "cert_file" "" .Values.config -}}https{{- else -}}http{{- end -}}
{{- end -}}

{{/* tidemark.yaml: the configuration of the values with what only the chart can know. */}}
{{- define "tidemark.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $host := printf "${POD_NAME}.%s.%s.svc.%s" (include "tidemark.members" .) .Release.Namespace .Values.clusterDomain -}}
{{- $_ := set $config "query_file" "query.sql" -}}
{{- $_ := set $config "state" (merge (dict "dir" "/var/lib/tidemark/state") (default dict $config.state)) -}}
{{- $_ := set $config "http" (merge (dict "listen" "0.0.0.0:8080" "advertise" (printf "%s://%s:8080" (include "tidemark.scheme" .) $host)) (default dict $config.http)) -}}
{{- if .Values.staticMembership -}}
{{- $_ := set $config.kafka "group.instance.id" "${POD_NAME}" -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{- define "tidemark.probe" -}}
httpGet: {path: {{ .path }}, port: http, scheme: {{ .scheme | upper }}}
{{- with .settings }}
{{ toYaml . }}
{{- end }}
{{- end -}}
