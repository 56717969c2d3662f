import { CodedError, type WebhookPlugin } from "cloud-controller-host/sdk";
import { stringify } from "yaml";

import { parse } from "../config/parse/parse.ts";
import { optionsOfShard } from "../config/validate/shard.ts";
import { formatProblems, validate } from "../config/validate/validate.ts";
import { resolveControllers } from "../config/values/controller-list.ts";
import { enabledPlugins } from "../generation/plugins/enabled.ts";
import { serviceAccountNamespace } from "../kube/connection/service-account-clients.ts";
import { readMigrations } from "../process/leader-election/migration-files.ts";
import { readingOf } from "../run/permissions.ts";
import { loadCommandPlugins } from "./command.ts";
import { accountsOf, grantsOf, type StartedWith } from "./grants.ts";
import { takeOwnOptions } from "./own-options.ts";
import { rbacManifest, ruleLines } from "./rbac-manifest.ts";

export const rbacUsage = `Usage: cloud-controller-host rbac [--plan|--console] [flags of the host]

Prints, as YAML for kubectl apply, the roles that a host with these flags needs for its enabled plugins, and the webhook
configurations. Most used flags:

  --plan                              only what the command plan needs: the same kinds, to be read
  --console                           only what a person needs to open the console, for a binding of your own
  --controllers=LIST                  as for the host
  --plugin-dir=DIR                    folder with plugins of your own; can be repeated
  --webhooks=LIST                     as for the host, with --feature-gates=CloudControllerManagerWebhook=true
  --cloud-config=FILE                 not read; without it the roles include reading the config from its Secret
  --use-service-account-credentials   a role for each controller's own service account
`;

const name = "cloud-controller-host";
const namespace = "kube-system";

/** `rbac`: roles, bindings and webhook configurations as YAML documents. Throws a `CodedError` with all problems. */
export async function printRoles(argv: readonly string[]): Promise<string> {
  const { given, rest, problems } = takeOwnOptions(argv, { withValue: [], switches: ["plan", "console"] });
  const isBoth = given.has("plan") && given.has("console");
  const misused = isBoth ? [...problems, "--plan and --console print different roles: choose one"] : problems;
  if (misused.length > 0) throw new CodedError("InvalidFlags", formatProblems(misused));
  const started = await read(rest);
  if (given.has("plan")) return printPlanRole(started);
  if (given.has("console")) return consoleRoles(started);
  const accounts = accountsOf(started).map((account) => {
    const own = { role: `${name}:${account.name}`, name: account.name, namespace: serviceAccountNamespace };
    return rbacManifest(own, [{ holder: account.name, permissions: account.permissions }]);
  });
  const { webhooks } = enabledPlugins(started.options, started.plugins);
  const host = rbacManifest({ role: name, name, namespace }, grantsOf(started));
  const documents = [host, ...accounts, webhookManifest(webhooks, { name: `${name}-webhooks`, namespace })];
  return documents.filter((text) => text !== "").join("---\n");
}

/** The role of `plan`, which reads what a host with these flags reads, in its own name. */
function printPlanRole(started: StartedWith): string {
  const options = { ...started.options, useServiceAccountCredentials: false };
  const reading = grantsOf({ ...started, options }).map(({ holder, permissions }) => ({
    holder,
    permissions: readingOf(permissions),
  }));
  const explain = {
    holder: "explain",
    permissions: [{ apiGroup: "", resources: ["events"], verbs: ["list"] }],
  } as const;
  return rbacManifest({ role: `${name}-plan`, name: `${name}-plan`, namespace }, [...reading, explain]);
}

/** The page itself is one path; the rest is for the command `console`, which finds the leader and forwards a port to it. */
function consoleRoles({ options: { leaderElectResourceName, leaderElectResourceNamespace } }: StartedWith): string {
  const rules = [
    ...ruleLines({
      apiGroup: "coordination.k8s.io",
      resources: ["leases"],
      resourceNames: [leaderElectResourceName],
      verbs: ["get"],
    }),
    ...ruleLines({ apiGroup: "", resources: ["pods"], verbs: ["list"] }),
    ...ruleLines({ apiGroup: "", resources: ["pods/portforward"], verbs: ["get", "create"] }),
  ];
  return `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: ${name}-console
rules:
- nonResourceURLs: ["/ui/*"]
  verbs: ["get"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: ${name}-console
  namespace: ${leaderElectResourceNamespace}
rules:
${rules.join("\n")}
`;
}

/** Imports the plugins and checks the flags that the roles depend on; a cloud config and CIDRs are not required. */
async function read(argv: readonly string[]): Promise<StartedWith> {
  const { loaded, copies } = await loadCommandPlugins([...argv, "--plugin-failure-policy=exit"]);
  await copies[Symbol.asyncDispose]();
  if (!loaded.ok) throw new CodedError("PluginsNotLoaded", formatProblems(loaded.problems));
  const { plugins } = loaded;
  const command = parse(argv, plugins.controllers);
  if (command.kind === "refused")
    throw new CodedError("InvalidFlags", `${formatProblems(command.problems)}\n${command.usageHint}`);
  if (command.kind !== "run") throw new CodedError("InvalidFlags", "--version cannot be combined with rbac");
  const controllers = resolveControllers(command.options.controllers, plugins.controllers);
  const options = optionsOfShard({ ...command.options, controllers });
  const migrations = await readMigrations(options, plugins.controllers);
  const irrelevant = { cloudConfig: "not read", configureCloudRoutes: false, allocateNodeCidrs: false };
  const names = { clouds: namesOf(plugins.clouds), webhooks: namesOf(plugins.webhooks) };
  const problems = [
    ...validate({ ...options, ...irrelevant }, { controllers: plugins.controllers, ...names }),
    ...(migrations.ok ? [] : migrations.problems),
  ];
  if (problems.length > 0 || !migrations.ok) throw new CodedError("InvalidFlags", formatProblems(problems));
  return { options, migrations: migrations.value, plugins };
}

const namesOf = (plugins: readonly { readonly name: string }[]): readonly string[] =>
  plugins.map((plugin) => plugin.name);

const kindOf = {
  validating: "ValidatingWebhookConfiguration",
  mutating: "MutatingWebhookConfiguration",
} as const;

/**
 * The registration of webhooks as YAML documents, for a Service of that name in `namespace` on port 443. The CA that signed the
 * serving certificate is to be filled in as `caBundle`.
 */
export function webhookManifest(
  webhooks: readonly WebhookPlugin[],
  service: { readonly name: string; readonly namespace: string },
): string {
  return webhooks
    .map(({ name: webhook, path, type, rules }) =>
      stringify({
        apiVersion: "admissionregistration.k8s.io/v1",
        kind: kindOf[type],
        metadata: { name: `${service.name}-${webhook}` },
        webhooks: [
          {
            name: `${webhook}.${service.name}.${service.namespace}.svc`,
            clientConfig: { service: { ...service, path, port: 443 } },
            rules: rules.map((rule) => ({ ...rule })),
            admissionReviewVersions: ["v1"],
            sideEffects: "None",
            failurePolicy: "Fail",
            timeoutSeconds: 10,
          },
        ],
      }),
    )
    .join("---\n");
}
