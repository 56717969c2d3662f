{{- define "cloud-controller-host.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "cloud-controller-host.fullname" -}}
{{- $name := include "cloud-controller-host.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "cloud-controller-host.webhookService" -}}
{{- printf "%s-webhooks" (include "cloud-controller-host.fullname" . | trunc 54 | trimSuffix "-") }}
{{- end }}

{{- define "cloud-controller-host.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "cloud-controller-host.fullname" .) }}
{{- end }}

{{- define "cloud-controller-host.selectorLabels" -}}
app.kubernetes.io/name: {{ include "cloud-controller-host.name" . | toYaml }}
app.kubernetes.io/instance: {{ .Release.Name | toYaml }}
{{- end }}

{{- define "cloud-controller-host.chartLabels" -}}
{{ include "cloud-controller-host.selectorLabels" . }}
app.kubernetes.io/component: cloud-controller-manager
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "cloud-controller-host.labels" -}}
{{ include "cloud-controller-host.chartLabels" . }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* "true" on the node's network, else empty. */ -}}
{{- define "cloud-controller-host.hostNetwork" -}}
{{- if eq (toString .Values.hostNetwork) "auto" }}
{{- with .Values.network }}{{ if and (or .allocateNodeCIDRs .configureCloudRoutes) .podNetworkWaitsForNodes (not $.Values.shadow.enabled) }}true{{ end }}{{ end }}
{{- else if .Values.hostNetwork }}true{{ end }}
{{- end }}

{{- /* Kubernetes 1.30 has the API; a hosted control plane needs the objects in its own cluster. */ -}}
{{- define "cloud-controller-host.admissionPolicy" -}}
{{- if eq (toString .Values.admissionPolicy.enabled) "auto" }}
{{- if and (not .Values.kubeconfig.secretName) (semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version) }}true{{ end }}
{{- else if .Values.admissionPolicy.enabled }}true{{ end }}
{{- end }}

{{- /* No policy applies to a Pod on the node's network. */ -}}
{{- define "cloud-controller-host.networkPolicy" -}}
{{- if eq (toString .Values.networkPolicy.enabled) "auto" }}
{{- if not (include "cloud-controller-host.hostNetwork" .) }}true{{ end }}
{{- else if .Values.networkPolicy.enabled }}true{{ end }}
{{- end }}

{{- /* Plugins, containers and variables of the user's may need to connect anywhere. */ -}}
{{- define "cloud-controller-host.egressPolicy" -}}
{{- if eq (toString .Values.networkPolicy.egress.enabled) "auto" }}
{{- with .Values }}{{ if not (or .plugins.folders .extraEnv .envFrom .initContainers .extraContainers) }}true{{ end }}{{ end }}
{{- else if .Values.networkPolicy.egress.enabled }}true{{ end }}
{{- end }}

{{- /* A probe of one path, on the address that is served. */ -}}
{{- define "cloud-controller-host.probe" -}}
httpGet:
  path: {{ .path }}
  port: https
  scheme: HTTPS
  {{- with .Values.serving.bindAddress }}
  {{- if not (has . (list "0.0.0.0" "::")) }}
  host: {{ . | quote }}
  {{- end }}
  {{- end }}
{{ toYaml .times }}
{{- end }}

{{- define "cloud-controller-host.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- define "cloud-controller-host.cloudConfigNamespace" -}}
{{- .Values.cloudConfig.secret.namespace | default .Release.Namespace }}
{{- end }}
