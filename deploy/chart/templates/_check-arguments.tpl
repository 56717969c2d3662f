{{- /* What is wrong with extraArgs, of the release and of its shards. */ -}}
{{- define "cloud-controller-host.check.arguments" -}}
{{- $own := list }}
{{- range include "cloud-controller-host.flags" . | fromYamlArray }}{{ $own = append $own (include "cloud-controller-host.flagName" .) }}{{ end }}
{{- $problems := include "cloud-controller-host.check.argumentsOf" (dict "in" "extraArgs" "args" .Values.extraArgs "own" $own "root" .) | fromYamlArray }}
{{- /* The flags of a shard that its Lease, Service, probes and roles depend on. Its others may differ from the release's. */}}
{{- $ofShard := list "shard" "service-selector" "load-balancer-class" "leader-elect" "leader-elect-resource-name" "leader-elect-resource-namespace" "secure-port" "bind-address" }}
{{- range .Values.shards }}
{{- $in := printf "shards: extraArgs of %s" .name }}
{{- $problems = concat $problems (include "cloud-controller-host.check.argumentsOf" (dict "in" $in "args" (.extraArgs | default list) "own" $ofShard "root" $) | fromYamlArray) }}
{{- end }}
{{- toYaml $problems }}
{{- end }}

{{- /* The name of a flag: `_` is as good as `-` on the command line. */ -}}
{{- define "cloud-controller-host.flagName" -}}
{{- splitList "=" . | first | trimPrefix "--" | replace "_" "-" }}
{{- end }}

{{- /* Of {in, args, own, root}: flags that are unknown, that the chart sets, or whose roles it makes from a value alone. */ -}}
{{- define "cloud-controller-host.check.argumentsOf" -}}
{{- $problems := list }}
{{- $values := .root.Values }}
{{- $known := (.root.Files.Get "files/flags.yaml" | fromYaml).flags }}
{{- $byValue := dict "shard" "shards" "service-selector" "services.selector" "load-balancer-class" "services.loadBalancerClass" "enable-leader-migration" "leaderMigration" }}
{{- range .args }}
{{- $flag := include "cloud-controller-host.flagName" . }}
{{- if has $flag $.own }}
{{- $problems = append $problems (printf "%s has %s, a flag that the chart sets itself: use the value for it" $.in .) }}
{{- else if and (not $values.plugins.folders) (not (has $flag $known)) }}
{{- $problems = append $problems (printf "%s has %s, which is not a flag of this version: `--help` lists them" $.in .) }}
{{- else if and $values.rbac.create (hasKey $byValue $flag) }}
{{- $problems = append $problems (printf "%s has %s, but the chart makes the roles for it from a value: use %s" $.in . (index $byValue $flag)) }}
{{- else if and $values.rbac.create (eq $flag "use-service-account-credentials") (not (regexMatch "=(0|f|F|false|FALSE|False)$" .)) }}
{{- $problems = append $problems (printf "%s has --use-service-account-credentials, but rbac.create makes roles for one service account: leave the flag out, or set rbac.create to false and apply what `cloud-controller-host rbac` prints" $.in) }}
{{- end }}
{{- end }}
{{- toYaml $problems }}
{{- end }}
