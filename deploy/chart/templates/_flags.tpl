{{- /* Paths in the container. */ -}}
{{- define "cloud-controller-host.cloudConfigFolder" -}}/etc/cloud-controller-host/cloud-config{{- end }}
{{- define "cloud-controller-host.migrationFolder" -}}/etc/cloud-controller-host/leader-migration{{- end }}
{{- define "cloud-controller-host.webhookFolder" -}}/etc/cloud-controller-host/webhooks{{- end }}
{{- define "cloud-controller-host.servingFolder" -}}/etc/cloud-controller-host/serving{{- end }}
{{- define "cloud-controller-host.kubeconfigFolder" -}}/etc/cloud-controller-host/kubeconfig{{- end }}
{{- define "cloud-controller-host.azureTokenFolder" -}}/var/run/secrets/azure/tokens{{- end }}

{{- /* The flags that the chart sets, as a list. */ -}}
{{- define "cloud-controller-host.flags" -}}
- --cloud-provider={{ .Values.cloudProvider }}
- {{ printf "--cluster-name=%s" .Values.clusterName | quote }}
- --controllers={{ include "cloud-controller-host.controllers" . | fromYamlArray | join "," }}
{{- with .Values.cloudConfig }}
{{- if .reload }}
- --enable-dynamic-reloading
{{- end }}
{{- if eq .source "secret" }}
- --cloud-config-secret-namespace={{ include "cloud-controller-host.cloudConfigNamespace" $ }}
- --cloud-config-secret-name={{ .secret.name }}
- --cloud-config-key={{ .secret.key }}
{{- else if .hostPath }}
- --cloud-config={{ include "cloud-controller-host.cloudConfigFolder" $ }}/{{ base .hostPath }}
{{- else }}
- --cloud-config={{ include "cloud-controller-host.cloudConfigFolder" $ }}/{{ .secret.key }}
{{- end }}
{{- end }}
{{- with .Values.leaderElection }}
- --leader-elect={{ .enabled }}
{{- if .enabled }}
- --leader-elect-resource-name={{ .leaseName }}
- --leader-elect-resource-namespace={{ .leaseNamespace }}
- --leader-elect-lease-duration={{ .leaseDurationSeconds }}s
- --leader-elect-renew-deadline={{ .renewDeadlineSeconds }}s
- --leader-elect-retry-period={{ .retryPeriodSeconds }}s
{{- end }}
{{- end }}
{{- with .Shard }}
- --shard={{ . }}
{{- end }}
{{- with .Values.services }}
{{- with .loadBalancerClass }}
- {{ printf "--load-balancer-class=%s" . | quote }}
{{- end }}
{{- with .selector }}
- {{ printf "--service-selector=%s" . | quote }}
{{- end }}
{{- end }}
{{- with .Values.shadow }}
{{- if .enabled }}
- --shadow
- --shadow-settle={{ .settleSeconds }}s
{{- end }}
{{- end }}
{{- if .Values.leaderMigration.enabled }}
- --enable-leader-migration
- --leader-migration-config={{ include "cloud-controller-host.migrationFolder" . }}/config.yaml
{{- end }}
{{- with .Values.network }}
{{- with .clusterCIDR }}
- --cluster-cidr={{ . }}
{{- end }}
{{- with .serviceClusterIPRange }}
- --service-cluster-ip-range={{ . }}
{{- end }}
- --configure-cloud-routes={{ .configureCloudRoutes }}
- --allocate-node-cidrs={{ .allocateNodeCIDRs }}
{{- end }}
{{- range .Values.plugins.folders }}
- --plugin-dir=/plugins/{{ .name }}
{{- end }}
{{- if .Values.plugins.watch }}
- --watch-plugins
{{- end }}
{{- with .Values.kubeconfig }}
{{- if .secretName }}
- --kubeconfig={{ include "cloud-controller-host.kubeconfigFolder" $ }}/{{ .key }}
{{- end }}
{{- end }}
{{- with .Values.serving.bindAddress }}
- {{ printf "--bind-address=%s" . | quote }}
{{- end }}
- --secure-port={{ .Values.serving.port }}
{{- if .Values.serving.tlsSecretName }}
- --tls-cert-file={{ include "cloud-controller-host.servingFolder" . }}/tls.crt
- --tls-private-key-file={{ include "cloud-controller-host.servingFolder" . }}/tls.key
{{- end }}
{{- with .Values.webhooks }}
{{- if .names }}
- {{ printf "--webhooks=%s" (join "," .names) | quote }}
- --webhook-secure-port={{ .port }}
- --webhook-tls-cert-file={{ include "cloud-controller-host.webhookFolder" $ }}/tls.crt
- --webhook-tls-private-key-file={{ include "cloud-controller-host.webhookFolder" $ }}/tls.key
{{- end }}
{{- end }}
- --generation-drain-timeout={{ .Values.drainTimeoutSeconds }}s
- --logging-format={{ .Values.logging.format }}
- --v={{ .Values.logging.verbosity }}
{{- with .Values.auditLog }}
{{- if .path }}
- {{ printf "--audit-log-path=%s" .path | quote }}
{{- if ne .path "-" }}
- --audit-log-maxage={{ .maxAgeDays }}
- --audit-log-maxbackup={{ .maxBackups }}
- --audit-log-maxsize={{ .maxSizeMegabytes }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "cloud-controller-host.volumes" -}}
# Each generation runs from a private copy of its plugins.
- name: tmp
  emptyDir:
    sizeLimit: 64Mi
{{- if eq .Values.cloudConfig.source "file" }}
- name: cloud-config
  {{- if .Values.cloudConfig.hostPath }}
  hostPath:
    path: {{ .Values.cloudConfig.hostPath | toYaml }}
    type: File
  {{- else }}
  secret:
    secretName: {{ .Values.cloudConfig.secret.name | toYaml }}
    # 0440
    defaultMode: 288
    items:
      - key: {{ .Values.cloudConfig.secret.key | toYaml }}
        path: {{ .Values.cloudConfig.secret.key | toYaml }}
  {{- end }}
{{- end }}
{{- if .Values.workloadIdentity.enabled }}
- name: azure-token
  projected:
    sources:
      - serviceAccountToken:
          audience: {{ .Values.workloadIdentity.audience | toYaml }}
          expirationSeconds: 3600
          path: token
{{- end }}
{{- if .Values.leaderMigration.enabled }}
- name: leader-migration
  configMap:
    name: {{ include "cloud-controller-host.fullname" . }}-leader-migration
{{- end }}
{{- with .Values.kubeconfig.secretName }}
- name: kubeconfig
  secret:
    secretName: {{ . | toYaml }}
    # 0440
    defaultMode: 288
{{- end }}
{{- with .Values.serving.tlsSecretName }}
- name: serving
  secret:
    secretName: {{ . | toYaml }}
    # 0440
    defaultMode: 288
{{- end }}
{{- if .Values.webhooks.names }}
- name: webhooks
  secret:
    secretName: {{ .Values.webhooks.tlsSecretName | toYaml }}
    # 0440
    defaultMode: 288
{{- end }}
{{- range .Values.plugins.folders }}
- name: plugins-{{ .name }}
  {{- toYaml .volume | nindent 2 }}
{{- end }}
{{- end }}

{{- define "cloud-controller-host.mounts" -}}
- name: tmp
  mountPath: /tmp
{{- if eq .Values.cloudConfig.source "file" }}
- name: cloud-config
  {{- with .Values.cloudConfig.hostPath }}
  mountPath: {{ include "cloud-controller-host.cloudConfigFolder" $ }}/{{ base . }}
  {{- else }}
  mountPath: {{ include "cloud-controller-host.cloudConfigFolder" . }}
  {{- end }}
  readOnly: true
{{- end }}
{{- if .Values.workloadIdentity.enabled }}
- name: azure-token
  mountPath: {{ include "cloud-controller-host.azureTokenFolder" . }}
  readOnly: true
{{- end }}
{{- if .Values.leaderMigration.enabled }}
- name: leader-migration
  mountPath: {{ include "cloud-controller-host.migrationFolder" . }}
  readOnly: true
{{- end }}
{{- if .Values.kubeconfig.secretName }}
- name: kubeconfig
  mountPath: {{ include "cloud-controller-host.kubeconfigFolder" . }}
  readOnly: true
{{- end }}
{{- if .Values.serving.tlsSecretName }}
- name: serving
  mountPath: {{ include "cloud-controller-host.servingFolder" . }}
  readOnly: true
{{- end }}
{{- if .Values.webhooks.names }}
- name: webhooks
  mountPath: {{ include "cloud-controller-host.webhookFolder" . }}
  readOnly: true
{{- end }}
{{- range .Values.plugins.folders }}
- name: plugins-{{ .name }}
  mountPath: /plugins/{{ .name }}
  readOnly: true
{{- end }}
{{- end }}

{{- define "cloud-controller-host.env" -}}
# Bun's limit on requests in flight, for the whole process: 256 that hang would starve all others.
- name: BUN_CONFIG_MAX_HTTP_REQUESTS
  value: "4096"
{{- with .Values.workloadIdentity }}
{{- if .enabled }}
- name: AZURE_TENANT_ID
  value: {{ .tenantID | quote }}
- name: AZURE_CLIENT_ID
  value: {{ .clientID | quote }}
- name: AZURE_FEDERATED_TOKEN_FILE
  value: {{ include "cloud-controller-host.azureTokenFolder" $ }}/token
{{- end }}
{{- end }}
{{- end }}
