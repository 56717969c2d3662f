{{- /* What the values contradict or lack, all at once. What a single value may be is in values.schema.json. */ -}}
{{- define "cloud-controller-host.check" -}}
{{- $problems := concat
  (include "cloud-controller-host.check.cloud" . | fromYamlArray)
  (include "cloud-controller-host.check.leadership" . | fromYamlArray)
  (include "cloud-controller-host.check.shards" . | fromYamlArray)
  (include "cloud-controller-host.check.controllers" . | fromYamlArray)
  (include "cloud-controller-host.check.pod" . | fromYamlArray)
  (include "cloud-controller-host.check.arguments" . | fromYamlArray)
  (include "cloud-controller-host.check.network" . | fromYamlArray)
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
{{- if and .Values.shadow.enabled .Values.webhooks.names }}
{{- $problems = append $problems "shadow.enabled with webhooks.names: a host that only compares serves no webhook; leave the list empty" }}
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
{{- $problems = append $problems (printf "controllers names %s, which is not a controller of this version, and plugins.folders is empty: known are %s" (trimPrefix "-" .) (keys $permissions.controllers | sortAlpha | join ", ")) }}
{{- end }}
{{- end }}
{{- range .Values.leaderMigration.controllerLeaders }}
{{- if not (has .name $known) }}
{{- $problems = append $problems (printf "leaderMigration.controllerLeaders names %s, which is not a controller of this version, and plugins.folders is empty: known are %s" .name (keys $permissions.controllers | sortAlpha | join ", ")) }}
{{- end }}
{{- end }}
{{- if not (hasKey $permissions.clouds .Values.cloudProvider) }}
{{- $problems = append $problems (printf "cloudProvider is %s, which is not a cloud of this version, and plugins.folders is empty: known are %s" .Values.cloudProvider (keys $permissions.clouds | sortAlpha | join ", ")) }}
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
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) }}
{{- $problems = append $problems "serviceAccount.create is false and serviceAccount.name is empty: name the account that is there already" }}
{{- end }}
{{- with .Values.metrics }}
{{- if and .serviceMonitor.enabled (not .service.enabled) }}
{{- $problems = append $problems "metrics.serviceMonitor.enabled needs metrics.service.enabled: it finds the replicas by the Service; or use metrics.podMonitor" }}
{{- end }}
{{- if and .serviceMonitor.enabled .podMonitor.enabled }}
{{- $problems = append $problems "metrics.serviceMonitor and metrics.podMonitor are both enabled: every replica would be scraped twice; enable one" }}
{{- end }}
{{- if or .serviceMonitor.enabled .podMonitor.enabled }}
{{- if not .scrape.authorization.secretName }}
{{- $problems = append $problems "metrics.scrape.authorization.secretName is missing: name a Secret with the token that Prometheus presents" }}
{{- end }}
{{- if and (not .scrape.insecureSkipVerify) (not $.Values.serving.tlsSecretName) }}
{{- $problems = append $problems "serving.tlsSecretName is empty, so Prometheus would send its token to a peer that it cannot verify: name a Secret with a serving certificate, or set metrics.scrape.insecureSkipVerify to true" }}
{{- end }}
{{- end }}
{{- if ne (empty .reader.name) (empty .reader.namespace) }}
{{- $problems = append $problems "metrics.reader needs both a name and a namespace: it is the service account that scrapes" }}
{{- end }}
{{- if and .reader.name (not $.Values.rbac.create) }}
{{- $problems = append $problems "metrics.reader is given a role, but rbac.create is false: set that to true, or leave the reader out" }}
{{- end }}
{{- end }}
{{- if and .Values.console.readers (not .Values.rbac.create) }}
{{- $problems = append $problems "console.readers are given a role, but rbac.create is false: set that to true, or leave the readers out" }}
{{- end }}
{{- toYaml $problems }}
{{- end }}

{{- define "cloud-controller-host.check.pod" -}}
{{- $problems := list }}
{{- $reserved := include "cloud-controller-host.chartLabels" . | fromYaml | keys }}
{{- range $key := list "podLabels" "commonLabels" }}
{{- range $label, $_ := index $.Values $key }}
{{- if has $label $reserved }}
{{- $problems = append $problems (printf "%s has %s, a label that the chart sets itself: leave it out" $key $label) }}
{{- end }}
{{- end }}
{{- end }}
{{- range $label, $_ := .Values.podLabels }}
{{- if hasKey $.Values.commonLabels $label }}
{{- $problems = append $problems (printf "podLabels and commonLabels both have %s: leave it out of one" $label) }}
{{- end }}
{{- end }}
{{- if hasKey (.Values.podAnnotations | default dict) "checksum/leader-migration" }}
{{- $problems = append $problems "podAnnotations has checksum/leader-migration, an annotation that the chart sets itself: leave it out" }}
{{- end }}
{{- $volumes := list }}
{{- range include "cloud-controller-host.volumes" . | fromYamlArray }}{{ $volumes = append $volumes .name }}{{ end }}
{{- range .Values.extraVolumes }}
{{- if has .name $volumes }}
{{- $problems = append $problems (printf "extraVolumes has a volume named %s, a name that is in use: choose another" .name) }}
{{- end }}
{{- $volumes = append $volumes .name }}
{{- end }}
{{- range $mount := .Values.extraVolumeMounts }}
{{- if not (has .name $volumes) }}
{{- $problems = append $problems (printf "extraVolumeMounts mounts %s, but no volume has that name: add it to extraVolumes" .name) }}
{{- end }}
{{- range include "cloud-controller-host.mounts" $ | fromYamlArray }}
{{- if or (eq .mountPath $mount.mountPath) (hasPrefix (printf "%s/" .mountPath) $mount.mountPath) (hasPrefix (printf "%s/" (trimSuffix "/" $mount.mountPath)) .mountPath) }}
{{- $problems = append $problems (printf "extraVolumeMounts mounts %s, over or under %s, which the chart mounts itself: choose another path" $mount.mountPath .mountPath) }}
{{- end }}
{{- end }}
{{- end }}
{{- $variables := list }}
{{- range include "cloud-controller-host.env" . | fromYamlArray }}{{ $variables = append $variables .name }}{{ end }}
{{- range .Values.extraEnv }}
{{- if has .name $variables }}
{{- $problems = append $problems (printf "extraEnv has %s, a variable that is set already: leave it out" .name) }}
{{- end }}
{{- $variables = append $variables .name }}
{{- end }}
{{- range concat (.Values.initContainers | default list) (.Values.extraContainers | default list) }}
{{- if eq .name "cloud-controller-host" }}
{{- $problems = append $problems "initContainers or extraContainers has one named cloud-controller-host, the name of the chart's own: choose another" }}
{{- end }}
{{- end }}
{{- if and (not .Values.leaderElection.enabled) (eq (.Values.strategy.type | default "") "RollingUpdate") }}
{{- $problems = append $problems "strategy.type is RollingUpdate, but leaderElection.enabled is false: two Pods would write at once; leave strategy empty, or enable leader election" }}
{{- end }}
{{- toYaml $problems }}
{{- end }}

{{- define "cloud-controller-host.check.network" -}}
{{- $problems := list }}
{{- $onNode := include "cloud-controller-host.hostNetwork" . }}
{{- with .Values.network }}
{{- range $switch, $what := dict "allocateNodeCIDRs" "pod CIDRs" "configureCloudRoutes" "routes" }}
{{- if and (index $.Values.network $switch) $.Values.network.podNetworkWaitsForNodes (not $onNode) (not $.Values.shadow.enabled) }}
{{- $problems = append $problems (printf "hostNetwork is false, but the Pods that hand out %s (network.%s) would wait for a pod network that waits for these: set hostNetwork to auto, or, for a CNI with addresses of its own, network.podNetworkWaitsForNodes to false" $what $switch) }}
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.webhooks }}
{{- if and .names (not $.Values.plugins.folders) }}
{{- $problems = append $problems "webhooks.names is set, but plugins.folders is empty, and this version has no webhooks of its own: name the folders of your plugins, or leave the list empty" }}
{{- end }}
{{- if and .names (not .tlsSecretName) }}
{{- $problems = append $problems "webhooks.tlsSecretName is missing: the API server calls only webhooks whose certificate it can verify" }}
{{- end }}
{{- if and (not .names) .tlsSecretName }}
{{- $problems = append $problems "webhooks.tlsSecretName is set, but webhooks.names is empty: name the webhooks, or leave it out" }}
{{- end }}
{{- if and .names (eq (int .port) (int $.Values.serving.port)) }}
{{- $problems = append $problems (printf "webhooks.port and serving.port are both %d: choose another" (int .port)) }}
{{- end }}
{{- end }}
{{- $address := .Values.serving.bindAddress | default "" }}
{{- $isLoopback := or (hasPrefix "127." $address) (eq $address "::1") }}
{{- if and $address (not $onNode) (not (has $address (list "0.0.0.0" "::"))) }}
{{- $problems = append $problems (printf "serving.bindAddress is %s, but hostNetwork is not true: a Pod's own address is not known in advance, and the kubelet cannot probe its loopback address; leave it empty, or set hostNetwork to true" $address) }}
{{- end }}
{{- if and $isLoopback (or .Values.metrics.serviceMonitor.enabled .Values.metrics.podMonitor.enabled) }}
{{- $problems = append $problems (printf "serving.bindAddress is %s, which Prometheus cannot reach from another node: leave it empty, or disable the monitors" $address) }}
{{- end }}
{{- if and (eq (toString .Values.networkPolicy.enabled) "true") $onNode }}
{{- $problems = append $problems "networkPolicy.enabled is true, but no NetworkPolicy applies to a Pod on the node's network (hostNetwork): disable it, and set serving.bindAddress or a firewall of the node" }}
{{- end }}
{{- if and .Values.networkPolicy.from (not (include "cloud-controller-host.networkPolicy" .)) }}
{{- $problems = append $problems "networkPolicy.from is set, but the network policy is disabled: see networkPolicy.enabled, or leave the list empty" }}
{{- end }}
{{- if and .Values.networkPolicy.egress.rules (not (and (include "cloud-controller-host.networkPolicy" .) (include "cloud-controller-host.egressPolicy" .))) }}
{{- $problems = append $problems "networkPolicy.egress.rules is set, but egress is not limited: set networkPolicy.egress.enabled to true, or leave the list empty" }}
{{- end }}
{{- with .Values.kubeconfig }}
{{- if .secretName }}
{{- range $key, $on := dict "rbac.create" $.Values.rbac.create "admissionPolicy.enabled" (eq (toString $.Values.admissionPolicy.enabled) "true") }}
{{- if $on }}
{{- $problems = append $problems (printf "%s is true, but kubeconfig.secretName names another cluster, where these objects would have to be: set it to false, and apply them there (`cloud-controller-host rbac` prints the roles)" $key) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- toYaml $problems }}
{{- end }}
