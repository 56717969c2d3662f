{{- /* The table of permissions, with the names that the values choose. */ -}}
{{- define "cloud-controller-host.permissions" -}}
{{- tpl (.Files.Get "files/permissions.yaml") . }}
{{- end }}

{{- /* The items of --controllers: what is listed, and off what `network` switches off. */ -}}
{{- define "cloud-controller-host.controllers" -}}
{{- $items := .Values.controllers }}
{{- if not .Values.network.configureCloudRoutes }}{{ $items = append $items "-node-route-controller" }}{{ end }}
{{- if not .Values.network.allocateNodeCIDRs }}{{ $items = append $items "-node-ipam" }}{{ end }}
{{- toYaml $items }}
{{- end }}

{{- /*
The canonical names of the enabled controllers, by the host's own rule: the first item that names one decides, and
without one `*` enables what is on by default.
*/ -}}
{{- define "cloud-controller-host.enabledControllers" -}}
{{- $items := include "cloud-controller-host.controllers" . | fromYamlArray }}
{{- $enabled := list }}
{{- range $name, $controller := (include "cloud-controller-host.permissions" . | fromYaml).controllers }}
{{- $names := prepend $controller.aliases $name }}
{{- $verdict := "" }}
{{- range $item := $items }}
{{- if and (not $verdict) (has (trimPrefix "-" $item) $names) }}{{ $verdict = ternary "off" "on" (hasPrefix "-" $item) }}{{ end }}
{{- end }}
{{- if not $verdict }}{{ $verdict = ternary "on" "off" (and $controller.enabledByDefault (has "*" $items)) }}{{ end }}
{{- if eq $verdict "on" }}{{ $enabled = append $enabled $name }}{{ end }}
{{- end }}
{{- toYaml $enabled }}
{{- end }}

{{- /* The grants of a host that only compares: reading, and the reviews of who may read what it serves. */ -}}
{{- define "cloud-controller-host.shadowGrants" -}}
{{- $reviews := list "authentication.k8s.io" "authorization.k8s.io" }}
{{- $kept := list }}
{{- range $grant := . }}
{{- $rules := list }}
{{- range $rule := $grant.rules }}
{{- $allowed := list "get" "list" "watch" }}
{{- if hasPrefix "leader election" $grant.holder }}{{ $allowed = list "get" }}{{ end }}
{{- if and (eq $grant.holder "the host") (has (first $rule.apiGroups) $reviews) }}{{ $allowed = list "create" }}{{ end }}
{{- $verbs := list }}
{{- range $rule.verbs }}{{ if has . $allowed }}{{ $verbs = append $verbs . }}{{ end }}{{ end }}
{{- if $verbs }}{{ $rules = append $rules (set (deepCopy $rule) "verbs" $verbs) }}{{ end }}
{{- end }}
{{- if $rules }}{{ $kept = append $kept (dict "holder" $grant.holder "rules" $rules) }}{{ end }}
{{- end }}
{{- toYaml $kept }}
{{- end }}

{{- /* What each part of the host may ask of the API server: a list of {holder, rules}. */ -}}
{{- define "cloud-controller-host.grants" -}}
{{- $permissions := include "cloud-controller-host.permissions" . | fromYaml }}
{{- $grants := list (dict "holder" "the host" "rules" $permissions.host) }}
{{- $enabled := include "cloud-controller-host.enabledControllers" . | fromYamlArray }}
{{- if .Values.shards }}{{ $enabled = append $enabled "service-lb-controller" | uniq }}{{ end }}
{{- $moving := false }}
{{- range .Values.leaderMigration.controllerLeaders }}
{{- if ne .component "kube-controller-manager" }}{{ $moving = true }}{{ end }}
{{- end }}
{{- if and .Values.leaderMigration.enabled $moving (not .Values.shadow.enabled) }}
{{- $grants = append $grants (dict "holder" "leader election and migration" "rules" $permissions.leaderElectionAndMigration) }}
{{- else if .Values.leaderElection.enabled }}
{{- $grants = append $grants (dict "holder" "leader election" "rules" $permissions.leaderElection) }}
{{- end }}
{{- if and .Values.leaderElection.enabled (not .Values.shadow.enabled) (or .Values.shards .Values.services.selector .Values.services.loadBalancerClass) }}
{{- $grants = append $grants (dict "holder" "shards" "rules" (include "cloud-controller-host.shardRules" . | fromYamlArray)) }}
{{- end }}
{{- if eq .Values.cloudConfig.source "secret" }}
{{- $grants = append $grants (dict "holder" "the cloud config" "rules" $permissions.cloudConfigSecret) }}
{{- end }}
{{- with index $permissions.clouds .Values.cloudProvider }}
{{- $grants = append $grants (dict "holder" (printf "the cloud %s" $.Values.cloudProvider) "rules" .) }}
{{- end }}
{{- range $enabled }}
{{- $grants = append $grants (dict "holder" . "rules" (index $permissions.controllers .).rules) }}
{{- end }}
{{- with .Values.plugins.rules }}
{{- $grants = append $grants (dict "holder" "plugins of one's own" "rules" .) }}
{{- end }}
{{- if .Values.shadow.enabled }}{{ include "cloud-controller-host.shadowGrants" $grants }}{{ else }}{{ toYaml $grants }}{{ end }}
{{- end }}
