{{- define "dra.name" -}}
{{ .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "dra.fullname" -}}
{{- $name := .Values.nameOverride | default .Chart.Name -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{ .Values.fullnameOverride | default $full | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "dra.namespace" -}}
{{ .Values.namespaceOverride | default .Release.Namespace }}
{{- end }}

{{- define "dra.account" -}}
{{ .Values.serviceAccount.name | default (printf "%s-service-account" (include "dra.fullname" .)) }}
{{- end }}

{{- define "dra.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/name: {{ include "dra.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "dra.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default (printf "v%s" .Chart.AppVersion) }}
{{- end }}

{{- define "dra.api" -}}
{{- $has := .Capabilities.APIVersions -}}
{{- if .Values.resourceApiVersion }}{{ .Values.resourceApiVersion }}
{{- else if $has.Has "resource.k8s.io/v1" }}resource.k8s.io/v1
{{- else if $has.Has "resource.k8s.io/v1beta2" }}resource.k8s.io/v1beta2
{{- else if $has.Has "resource.k8s.io/v1beta1" }}resource.k8s.io/v1beta1
{{- else }}{{ fail "the cluster serves no version of resource.k8s.io that this chart knows" }}
{{- end }}
{{- end }}
