{{- /* The two endpoints of a replica, for both kinds of monitor. */ -}}
{{- define "cloud-controller-host.scrapes" -}}
{{- range list "/metrics" "/metrics/slis" }}
- port: https
  scheme: https
  path: {{ . }}
  interval: {{ $.Values.metrics.scrape.interval }}
  scrapeTimeout: {{ $.Values.metrics.scrape.timeout }}
  # Two targets per replica: without this label some of their series would be the same.
  relabelings:
    - sourceLabels: [__metrics_path__]
      targetLabel: metrics_path
    {{- if $.Values.metrics.podMonitor.enabled }}
    # The job of the alerts and the dashboard, as a ServiceMonitor has it: by default a PodMonitor's is <namespace>/<name>.
    - targetLabel: job
      replacement: {{ include "cloud-controller-host.fullname" $ | toYaml }}
    {{- end }}
  {{- with $.Values.metrics.scrape.metricRelabelings }}
  metricRelabelings: {{- toYaml . | nindent 4 }}
  {{- end }}
  authorization:
    credentials:
      name: {{ $.Values.metrics.scrape.authorization.secretName | toYaml }}
      key: {{ $.Values.metrics.scrape.authorization.key | toYaml }}
  tlsConfig:
    {{- if $.Values.metrics.scrape.insecureSkipVerify }}
    insecureSkipVerify: true
    {{- else }}
    serverName: {{ include "cloud-controller-host.fullname" $ }}.{{ $.Release.Namespace }}.svc
    ca:
      secret:
        name: {{ $.Values.metrics.scrape.caSecret.name | default $.Values.serving.tlsSecretName | toYaml }}
        key: {{ $.Values.metrics.scrape.caSecret.key | toYaml }}
    {{- end }}
{{- end }}
{{- end }}
