{{- /* What the values contradict or lack, all at once. What a single value may be is in values.schema.json. */ -}}
{{- define "cloud-controller-host.check" -}}
{{- $problems := concat
  (include "cloud-controller-host.check.cloud" . | fromYamlArray)
  (include "cloud-controller-host.check.leadership" . | fromYamlArray)
  (include "cloud-controller-host.check.controllers" . | fromYamlArray)
  (include "cloud-controller-host.check.rest" . | fromYamlArray) }}
{{- if $problems }}
{{- fail (printf "the values do not fit together:\n  - %s\n" (join "\n  - " $problems)) }}
{{- end }}
{{- end }}

{{- define "cloud-controller-host.check.cloud" -}}
{{- $problems := list }}
{{- with .Values.cloudConfig }}
{{- if and (eq .source "secret") (not .reload) }}
{{- $problems = append $problems "cloudConfig.reload is false, but a Secret that is read over the API (cloudConfig.source: secret) is always followed: set cloudConfig.reload to true, or cloudConfig.source to file" }}
{{- end }}
{{- if and (eq .source "secret") .hostPath }}
{{- $problems = append $problems "cloudConfig.hostPath names a file, but cloudConfig.source is secret: set cloudConfig.source to file, or leave cloudConfig.hostPath empty" }}
{{- end }}
{{- if and (eq .source "file") .hostPath .reload }}
{{- $problems = append $problems "cloudConfig.reload is true, but a container keeps seeing the old file of cloudConfig.hostPath when it is replaced on the node: set cloudConfig.reload to false, or keep the config in a Secret" }}
{{- end }}
{{- if and (eq .source "file") (not .hostPath) .secret.namespace (ne .secret.namespace $.Release.Namespace) }}
{{- $problems = append $problems (printf "cloudConfig.secret.namespace is %s, but a Pod can only mount Secrets of its own namespace, %s: leave it empty, or set cloudConfig.source to secret" .secret.namespace $.Release.Namespace) }}
{{- end }}
{{- end }}
{{- with .Values.workloadIdentity }}
{{- range $key, $what := dict "tenantID" "tenant" "clientID" "client" }}
{{- if and $.Values.workloadIdentity.enabled (not (index $.Values.workloadIdentity $key)) }}
{{- $problems = append $problems (printf "workloadIdentity.%s is missing: workload identity needs the %s id of the identity" $key $what) }}
{{- else if and (not $.Values.workloadIdentity.enabled) (index $.Values.workloadIdentity $key) }}
{{- $problems = append $problems (printf "workloadIdentity.%s is set, but workloadIdentity.enabled is false: enable it, or leave the %s id out" $key $what) }}
{{- end }}
{{- end }}
{{- end }}
{{- toYaml $problems }}
{{- end }}

{{- define "cloud-controller-host.check.leadership" -}}
{{- $problems := list }}
{{- with .Values.leaderElection }}
{{- if and (not .enabled) (gt (int $.Values.replicas) 1) }}
{{- $problems = append $problems (printf "leaderElection.enabled is false, but replicas is %d: all of them would write at once; set replicas to 1, or enable leader election" (int $.Values.replicas)) }}
{{- end }}
{{- if le (int .leaseDurationSeconds) (int .renewDeadlineSeconds) }}
{{- $problems = append $problems "leaderElection.leaseDurationSeconds must exceed leaderElection.renewDeadlineSeconds, so that the leader gives up before another takes over" }}
{{- end }}
{{- if le (mul 10 (int .renewDeadlineSeconds)) (mul 12 (int .retryPeriodSeconds)) }}
{{- $problems = append $problems "leaderElection.renewDeadlineSeconds must exceed 1.2 times leaderElection.retryPeriodSeconds, so that there is time to try again" }}
{{- end }}
{{- end }}
{{- with .Values.leaderMigration }}
{{- if and .enabled (not $.Values.leaderElection.enabled) }}
{{- $problems = append $problems "leaderMigration.enabled needs leaderElection.enabled: the second lock is only tried for while the first is held" }}
{{- end }}
{{- if and .enabled (eq .leaderName $.Values.leaderElection.leaseName) }}
{{- $problems = append $problems (printf "leaderMigration.leaderName and leaderElection.leaseName are both %s: they are two Leases" .leaderName) }}
{{- end }}
{{- if and .enabled (not .controllerLeaders) }}
{{- $problems = append $problems "leaderMigration.controllerLeaders is empty: name each controller that moves, and the component that runs it" }}
{{- end }}
{{- if and (not .enabled) .controllerLeaders }}
{{- $problems = append $problems "leaderMigration.controllerLeaders is set, but leaderMigration.enabled is false: enable it, or leave the list empty" }}
{{- end }}
{{- end }}
{{- toYaml $problems }}
{{- end }}

{{- define "cloud-controller-host.check.controllers" -}}
{{- $problems := list }}
{{- $permissions := include "cloud-controller-host.permissions" . | fromYaml }}
{{- $known := list "*" }}
{{- range $name, $controller := $permissions.controllers }}{{ $known = concat $known (list $name) $controller.aliases }}{{ end }}
{{- if not .Values.plugins.folders }}
{{- range .Values.controllers }}
{{- if not (has (trimPrefix "-" .) $known) }}
{{- $problems = append $problems (printf "controllers names %s, which is no controller of this version, and plugins.folders brings none: known are %s" (trimPrefix "-" .) (keys $permissions.controllers | sortAlpha | join ", ")) }}
{{- end }}
{{- end }}
{{- range .Values.leaderMigration.controllerLeaders }}
{{- if not (has .name $known) }}
{{- $problems = append $problems (printf "leaderMigration.controllerLeaders names %s, which is no controller of this version, and plugins.folders brings none: known are %s" .name (keys $permissions.controllers | sortAlpha | join ", ")) }}
{{- end }}
{{- end }}
{{- if not (hasKey $permissions.clouds .Values.cloudProvider) }}
{{- $problems = append $problems (printf "cloudProvider is %s, which is no cloud of this version, and plugins.folders brings none: known are %s" .Values.cloudProvider (keys $permissions.clouds | sortAlpha | join ", ")) }}
{{- end }}
{{- end }}
{{- range $switch, $controller := dict "configureCloudRoutes" "node-route-controller" "allocateNodeCIDRs" "node-ipam" }}
{{- $on := index $.Values.network $switch }}
{{- range prepend (index $permissions.controllers $controller).aliases $controller }}
{{- if and (has . $.Values.controllers) (not $on) }}
{{- $problems = append $problems (printf "controllers names %s, but network.%s is false: set that to true, or leave the controller out" . $switch) }}
{{- end }}
{{- end }}
{{- if and $on (not $.Values.network.clusterCIDR) }}
{{- $problems = append $problems (printf "network.%s needs network.clusterCIDR: the CIDR that the pods' addresses are of" $switch) }}
{{- end }}
{{- end }}
{{- toYaml $problems }}
{{- end }}

{{- define "cloud-controller-host.check.rest" -}}
{{- $problems := list }}
{{- if not .Values.image.repository }}
{{- $problems = append $problems "image.repository is missing: build deploy/Containerfile, push the image to a registry of yours and name it here" }}
{{- end }}
{{- with .Values.plugins }}
{{- range $key := list "watch" "rules" }}
{{- if and (index $.Values.plugins $key) (not $.Values.plugins.folders) }}
{{- $problems = append $problems (printf "plugins.%s is set, but plugins.folders is empty: name the folders, or leave it out" $key) }}
{{- end }}
{{- end }}
{{- $names := list }}
{{- range .folders }}
{{- if has .name $names }}{{ $problems = append $problems (printf "plugins.folders has two folders with the name %s: each needs one of its own" .name) }}{{ end }}
{{- $names = append $names .name }}
{{- end }}
{{- end }}
{{- $own := list }}
{{- range include "cloud-controller-host.flags" . | fromYamlArray }}{{ $own = append $own (splitList "=" . | first) }}{{ end }}
{{- range .Values.extraArgs }}
{{- if has (splitList "=" . | first) $own }}
{{- $problems = append $problems (printf "extraArgs has %s, a flag that the chart sets itself: use the value for it" .) }}
{{- end }}
{{- end }}
{{- if and .Values.rbac.create (or (has "--use-service-account-credentials" .Values.extraArgs) (has "--use-service-account-credentials=true" .Values.extraArgs)) }}
{{- $problems = append $problems "extraArgs has --use-service-account-credentials, but rbac.create makes roles for one service account: leave the flag out, or set rbac.create to false and apply what `bun deploy/roles.ts` prints" }}
{{- end }}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) }}
{{- $problems = append $problems "serviceAccount.create is false and serviceAccount.name is empty: name the account that is there already" }}
{{- end }}
{{- with .Values.metrics }}
{{- if and .serviceMonitor.enabled (not .service.enabled) }}
{{- $problems = append $problems "metrics.serviceMonitor.enabled needs metrics.service.enabled: it finds the replicas by the Service" }}
{{- end }}
{{- if ne (empty .reader.name) (empty .reader.namespace) }}
{{- $problems = append $problems "metrics.reader needs both a name and a namespace: it is the service account that scrapes" }}
{{- end }}
{{- if and .reader.name (not $.Values.rbac.create) }}
{{- $problems = append $problems "metrics.reader is given a role, but rbac.create is false: set that to true, or leave the reader out" }}
{{- end }}
{{- end }}
{{- toYaml $problems }}
{{- end }}
