{{- define "plugin.name" -}}
{{ .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "plugin.fullname" -}}
{{- $name := include "plugin.name" . -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{ .Values.fullnameOverride | default $full | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "plugin.namespace" -}}
{{ .Values.namespaceOverride | default .Release.Namespace }}
{{- end }}

{{- define "plugin.podLabels" -}}
app.kubernetes.io/name: {{ include "plugin.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- with .Values.selectorLabelsOverride }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "plugin.selector" -}}
{{- if .Values.selectorLabelsOverride }}
{{- toYaml .Values.selectorLabelsOverride }}
{{- else }}
{{- include "plugin.podLabels" . }}
{{- end }}
{{- end }}

{{- define "plugin.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "plugin.podLabels" . }}
{{- end }}

{{- define "plugin.configMap" -}}
{{- if .Values.config.name }}
{{- .Values.config.name }}
{{- else if .Values.config.map }}
{{- include "plugin.fullname" . }}-configs
{{- end }}
{{- end }}

{{- define "plugin.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default (printf "v%s" .Chart.AppVersion) }}
{{- end }}

{{- /* Render one DaemonSet. Arguments: root, name, container, command, selector (extra nodeSelector), context. */ -}}
{{- define "plugin.daemonSet" -}}
{{- $root := .root -}}
{{- $values := $root.Values -}}
{{- $configMap := include "plugin.configMap" $root -}}
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ .name | trunc 63 | trimSuffix "-" }}
  namespace: {{ include "plugin.namespace" $root }}
  labels:
    {{- include "plugin.labels" $root | nindent 4 }}
spec:
  selector:
    matchLabels:
      {{- include "plugin.selector" $root | nindent 6 }}
  {{- with $values.updateStrategy }}
  updateStrategy:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  template:
    metadata:
      labels:
        {{- include "plugin.podLabels" $root | nindent 8 }}
      annotations:
        gpu-cluster/fake: "true"
        {{- if $values.config.map }}
        checksum/config: {{ $values.config.map | toJson | sha256sum }}
        {{- end }}
        {{- with $values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      serviceAccountName: {{ include "plugin.fullname" $root }}-service-account
      {{- with $values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with $values.runtimeClassName }}
      runtimeClassName: {{ . }}
      {{- end }}
      {{- with $values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.podSecurityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: {{ .container }}
          image: {{ include "plugin.image" $root }}
          imagePullPolicy: {{ $values.image.pullPolicy }}
          command: [{{ .command }}]
          env:
            - name: MPS_ROOT
              value: {{ $values.mps.root | quote }}
            {{- range $name, $value := dict
                  "MIG_STRATEGY" $values.migStrategy
                  "FAIL_ON_INIT_ERROR" $values.failOnInitError
                  "PASS_DEVICE_SPECS" $values.compatWithCPUManager
                  "DEVICE_LIST_STRATEGY" $values.deviceListStrategy
                  "DEVICE_ID_STRATEGY" $values.deviceIDStrategy
                  "NVIDIA_DRIVER_ROOT" $values.nvidiaDriverRoot
                  "DEVICE_DISCOVERY_STRATEGY" $values.deviceDiscoveryStrategy }}
            {{- if not (kindIs "invalid" $value) }}
            - name: {{ $name }}
              value: {{ $value | toString | quote }}
            {{- end }}
            {{- end }}
            {{- if $configMap }}
            - name: CONFIG_FILE
              value: /config/config.yaml
            - name: DEFAULT_CONFIG
              value: {{ $values.config.default | quote }}
            {{- end }}
          {{- with .context }}
          securityContext:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- with $values.resources }}
          resources:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- $folders := eq .container "nvidia-device-plugin-ctr" }}
          {{- if or $folders $configMap }}
          volumeMounts:
            {{- if $folders }}
            - name: kubelet-device-plugins-dir
              mountPath: /var/lib/kubelet/device-plugins
            {{- end }}
            {{- if $configMap }}
            - name: available-configs
              mountPath: /available-configs
            {{- end }}
          {{- end }}
      {{- if or $folders $configMap }}
      volumes:
        {{- if $folders }}
        - name: kubelet-device-plugins-dir
          hostPath:
            path: /var/lib/kubelet/device-plugins
            type: Directory
        {{- end }}
        {{- if $configMap }}
        - name: available-configs
          configMap:
            name: {{ $configMap }}
        {{- end }}
      {{- end }}
      {{- with merge (dict) .selector $values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
{{- end }}
