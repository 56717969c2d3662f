/**
 * Prints roles and webhook registrations for a host with these flags, third-party plugins included:
 *
 *     bun deploy/roles.ts --cloud-config=/etc/azure.json --controllers='*,-route' --plugin-dir=/plugins
 */
import { readCommand } from "../host/command.ts";
import { enabledPlugins } from "../host/generation/enabled.ts";
import { serviceAccountNamespace } from "../host/kube/connection/service-account-clients.ts";
import { accountsOf, grantsOf } from "./grants.ts";
import { rbacManifest } from "./rbac.ts";
import { webhookManifest } from "./webhook-configuration.ts";

const name = "cloud-controller-host";
const host = { role: name, name, namespace: "kube-system" };

const input = await readCommand(process.argv.slice(2), {
  environment: process.env,
  stdout: (text) => void process.stdout.write(text),
  stderr: (text) => void process.stderr.write(text),
  width: process.stdout.columns ?? 100,
});
if ("status" in input) process.exitCode = input.status;
else {
  const others = accountsOf(input).map((account) => {
    const own = { role: `${name}:${account.name}`, name: account.name, namespace: serviceAccountNamespace };
    return rbacManifest(own, [{ holder: account.name, permissions: account.permissions }]);
  });
  const { webhooks } = enabledPlugins(input.options, input.plugins);
  const documents = [
    rbacManifest(host, grantsOf(input)),
    ...others,
    webhookManifest(webhooks, { name, namespace: "kube-system" }),
  ];
  process.stdout.write(documents.filter((text) => text !== "").join("---\n"));
}
