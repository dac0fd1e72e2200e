{{- /* Beginning of the names of objects, as in HAMi's templates/_helpers.tpl. */ -}}
{{- define "hami.fullname" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end }}
{{- end }}

{{- define "hami.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* Labels of an object. Arguments: root, part. */ -}}
{{- define "hami.labels" -}}
app.kubernetes.io/component: {{ .part }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{ include "hami.selector" .root }}
{{- end }}

{{- /* Name of an image. Arguments: image, tag for an image without one. */ -}}
{{- define "hami.image" -}}
{{ list .image.registry .image.repository | compact | join "/" }}:{{ .image.tag | default .tag }}
{{- end }}

{{- define "hami.pullSecrets" -}}
{{- with .Values.global.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}
