{{- /* How new Pods take the place of old ones. */ -}}
{{- define "cloud-controller-host.strategy" -}}
{{- if .Values.strategy }}
{{- toYaml .Values.strategy }}
{{- else if or (not .Values.leaderElection.enabled) (include "cloud-controller-host.runsUnderAnotherLease" .) }}
# Nothing else prevents two writers.
type: Recreate
{{- else }}
type: RollingUpdate
rollingUpdate:
  {{- if include "cloud-controller-host.hostNetwork" . }}
  # Two on one node would use the same port.
  maxSurge: 0
  maxUnavailable: 1
  {{- else }}
  maxSurge: 1
  maxUnavailable: 0
  {{- end }}
{{- end }}
{{- end }}

{{- /* "true" if Pods that run in the cluster have no Lease, or another one than new Pods. Unknown where Helm only renders. */ -}}
{{- define "cloud-controller-host.runsUnderAnotherLease" -}}
{{- $flags := include "cloud-controller-host.flags" . | fromYamlArray }}
{{- $running := lookup "apps/v1" "Deployment" .Release.Namespace (include "cloud-controller-host.fullname" .) }}
{{- range dig "spec" "template" "spec" "containers" list $running }}
{{- if eq .name "cloud-controller-host" }}
{{- range .args }}
{{- if and (regexMatch "^--leader-elect(-resource-name|-resource-namespace)?=" .) (not (has . $flags)) }}true{{ end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
