{{- /*
Sets .Scopes: what each Deployment and its Service, budget and policies are rendered with. The first is the release
itself, the others are its shards, with values of their own.
*/ -}}
{{- define "cloud-controller-host.scopes" -}}
{{- $parts := dict "Release" .Release "Chart" .Chart "Files" .Files "Capabilities" .Capabilities "Template" .Template }}
{{- $scopes := list (merge (dict "Values" .Values) $parts) }}
{{- range .Values.shards }}
{{- $own := dict
  "nameOverride" (printf "%s-%s" (include "cloud-controller-host.name" $ | trunc 32 | trimSuffix "-") .name)
  "fullnameOverride" (printf "%s-%s" (include "cloud-controller-host.fullname" $ | trunc 32 | trimSuffix "-") .name)
  "serviceAccount" (dict "name" (include "cloud-controller-host.serviceAccountName" $))
  "controllers" (list "*")
  "network" (dict "configureCloudRoutes" false "allocateNodeCIDRs" false)
  "leaderMigration" (dict "enabled" false)
  "webhooks" (dict "names" list)
  "replicas" (.replicas | default $.Values.replicas)
  "extraArgs" (concat $.Values.extraArgs (.extraArgs | default list))
  "services" (dict "loadBalancerClass" (.loadBalancerClass | default "") "selector" (.selector | default ""))
  "cloudConfig" (dict "secret" (dict "name" (.cloudConfigSecretName | default $.Values.cloudConfig.secret.name)))
}}
{{- $values := mergeOverwrite (deepCopy $.Values) $own }}
{{- /* An address of the node, where only the release itself is on its network. */ -}}
{{- if not (include "cloud-controller-host.hostNetwork" (dict "Values" $values)) }}{{ $_ := set $values.serving "bindAddress" "" }}{{ end }}
{{- $scope := dict "Shard" .name "Values" $values }}
{{- $scopes = append $scopes (merge $scope $parts) }}
{{- end }}
{{- $_ := set . "Scopes" $scopes }}
{{- end }}

{{- /* The Leases of the shards, a look at all of them, and cloud configs of their own: a list of rules. */ -}}
{{- define "cloud-controller-host.shardRules" -}}
{{- $lease := dict "apiGroups" (list "coordination.k8s.io") "resources" (list "leases") "namespace" .Values.leaderElection.leaseNamespace }}
{{- $rules := list (merge (dict "verbs" (list "list")) $lease) }}
{{- $names := list }}
{{- range .Values.shards }}{{ $names = append $names (printf "%s-%s" $.Values.leaderElection.leaseName .name) }}{{ end }}
{{- if $names }}
{{- $rules = append $rules (merge (dict "verbs" (list "get" "list" "watch" "update") "resourceNames" $names) $lease) }}
{{- end }}
{{- $secrets := list }}
{{- range .Values.shards }}{{ with .cloudConfigSecretName }}{{ $secrets = append $secrets . }}{{ end }}{{ end }}
{{- if and $secrets (eq .Values.cloudConfig.source "secret") }}
{{- $rules = append $rules (dict "apiGroups" (list "") "resources" (list "secrets") "namespace" (include "cloud-controller-host.cloudConfigNamespace" .) "verbs" (list "get" "list" "watch") "resourceNames" $secrets) }}
{{- end }}
{{- toYaml $rules }}
{{- end }}

{{- /* The requirements of a label selector: a list of {key, operator, values}. */ -}}
{{- define "cloud-controller-host.requirements" -}}
{{- $requirements := list }}
{{- range regexFindAll "[^,(]+(\\([^)]*\\))?" . -1 }}
{{- $text := trim . }}
{{- $key := regexFind "[A-Za-z0-9][-A-Za-z0-9_./]*" $text }}
{{- $operator := "exists" }}
{{- $values := "" }}
{{- if hasPrefix "!" $text }}{{ $operator = "absent" }}
{{- else if regexMatch "\\snotin\\s*\\(" $text }}{{ $operator = "notin" }}{{ $values = regexFind "\\(.*\\)" $text }}
{{- else if regexMatch "\\sin\\s*\\(" $text }}{{ $operator = "in" }}{{ $values = regexFind "\\(.*\\)" $text }}
{{- else if contains "!=" $text }}{{ $operator = "notin" }}{{ $values = regexReplaceAll "^.*=" $text "" }}
{{- else if contains "=" $text }}{{ $operator = "in" }}{{ $values = regexReplaceAll "^.*=" $text "" }}
{{- else if regexMatch "[<>]" $text }}{{ $operator = "range" }}
{{- end }}
{{- $items := list }}
{{- range splitList "," ($values | trimPrefix "(" | trimSuffix ")") }}{{ $items = append $items (trim .) }}{{ end }}
{{- $requirements = append $requirements (dict "key" $key "operator" $operator "values" $items) }}
{{- end }}
{{- toYaml $requirements }}
{{- end }}

{{- /* "true" if no Service matches two requirements of one label: of `one` and of `other`. */ -}}
{{- define "cloud-controller-host.excludes" -}}
{{- $operators := list .one.operator .other.operator }}
{{- $present := list "exists" "in" "range" }}
{{- if and (has "absent" $operators) (or (has .one.operator $present) (has .other.operator $present)) }}true
{{- else if and (eq .one.operator "in") (has .other.operator (list "in" "notin")) }}
{{- $left := list }}
{{- range .one.values }}
{{- if eq (has . $.other.values) (eq $.other.operator "in") }}{{ $left = append $left . }}{{ end }}
{{- end }}
{{- if not $left }}true{{ end }}
{{- else if and (eq .one.operator "notin") (eq .other.operator "in") }}
{{- include "cloud-controller-host.excludes" (dict "one" .other "other" .one) }}
{{- end }}
{{- end }}

{{- /* "true" if two shards, {name, loadBalancerClass, selector}, are known to serve some of the same Services. */ -}}
{{- define "cloud-controller-host.overlap" -}}
{{- $ones := include "cloud-controller-host.requirements" (.one.selector | default "") | fromYamlArray }}
{{- $others := include "cloud-controller-host.requirements" (.other.selector | default "") | fromYamlArray }}
{{- $isKnown := true }}
{{- range list $ones $others }}
{{- $keys := list }}
{{- range . }}
{{- if or (eq .operator "range") (has .key $keys) }}{{ $isKnown = false }}{{ end }}
{{- $keys = append $keys .key }}
{{- end }}
{{- end }}
{{- $isDisjoint := ne (.one.loadBalancerClass | default "") (.other.loadBalancerClass | default "") }}
{{- range $one := $ones }}
{{- range $other := $others }}
{{- if and (eq $one.key $other.key) (include "cloud-controller-host.excludes" (dict "one" $one "other" $other)) }}{{ $isDisjoint = true }}{{ end }}
{{- end }}
{{- end }}
{{- if and $isKnown (not $isDisjoint) }}true{{ end }}
{{- end }}

{{- define "cloud-controller-host.check.shards" -}}
{{- $problems := list }}
{{- $services := .Values.services }}
{{- if and .Values.shards (not .Values.leaderElection.enabled) }}
{{- $problems = append $problems "shards needs leaderElection.enabled: each shard reads from the others' Leases what they serve" }}
{{- end }}
{{- if and .Values.shards .Values.shadow.enabled }}
{{- $problems = append $problems "shards with shadow.enabled: a host that only compares has no shards; leave the list empty" }}
{{- end }}
{{- $seen := list }}
{{- if has "service-lb-controller" (include "cloud-controller-host.enabledControllers" . | fromYamlArray) }}
{{- $seen = append $seen (dict "name" "" "loadBalancerClass" $services.loadBalancerClass "selector" $services.selector) }}
{{- end }}
{{- range $shard := .Values.shards }}
{{- if not (or $shard.selector $shard.loadBalancerClass) }}
{{- $problems = append $problems (printf "shards: %s has neither selector nor loadBalancerClass: it needs the Services that it serves" $shard.name) }}
{{- else }}
{{- range $seen }}
{{- if eq .name $shard.name }}
{{- $problems = append $problems (printf "shards has two shards with the name %s: each needs one of its own" .name) }}
{{- else if include "cloud-controller-host.overlap" (dict "one" . "other" $shard) }}
{{- $what := ternary (printf "shard %s" .name) "the deployment without a shard" (ne .name "") }}
{{- $way := ternary "selector or loadBalancerClass" (printf "services.selector, such as \"shard notin (%s)\"," $shard.name) (ne .name "") }}
{{- $problems = append $problems (printf "shards: %s serves some of the same Services as %s: change %s so that no Service matches both" $shard.name $what $way) }}
{{- end }}
{{- end }}
{{- end }}
{{- $seen = append $seen $shard }}
{{- end }}
{{- toYaml $problems }}
{{- end }}
