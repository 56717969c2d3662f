/**
 * Prints the roles of a host that is started with the flags given here, plugins of one's own included:
 *
 *     bun deploy/roles.ts --cloud-config=/etc/azure.json --controllers='*,-route' --plugin-dir=/plugins
 */
import { readCommand } from "../host/command.ts";
import { grantsOf } from "./grants.ts";
import { rbacManifest } from "./rbac.ts";

const account = { name: "cloud-controller-host", namespace: "kube-system" };

const input = await readCommand(process.argv.slice(2), {
  environment: process.env,
  stdout: (text) => void process.stdout.write(text),
  stderr: (text) => void process.stderr.write(text),
  width: process.stdout.columns ?? 100,
});
if ("status" in input) process.exitCode = input.status;
else process.stdout.write(rbacManifest(account, grantsOf(input)));
