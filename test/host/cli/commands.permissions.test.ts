import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import { runCommand } from "../../kit/plan.ts";
import { SandboxLab } from "../sandbox-lab.ts";

setDefaultTimeout(120_000);

/** An API server on which the user may do nothing. */
const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch: () => {
    const message = 'it is forbidden: User "u" cannot list resource "r" in API group "" in the namespace "n"';
    const status = { kind: "Status", apiVersion: "v1", status: "Failure", reason: "Forbidden", code: 403, message };
    return Response.json(status, { status: 403 });
  },
});
let lab: SandboxLab;
let kubeconfig = "";
beforeAll(async () => {
  lab = await SandboxLab.open();
  kubeconfig = join(lab.azure.folder, "forbidden.kubeconfig");
  const context = { name: "c", context: { cluster: "c", user: "u" } };
  const cluster = { name: "c", cluster: { server: server.url.href } };
  const user = { name: "u", user: { token: "t" } };
  const config = { "current-context": "c", contexts: [context], clusters: [cluster], users: [user] };
  await writeFile(kubeconfig, JSON.stringify(config));
});
afterAll(async () => {
  await server.stop(true);
  await lab[Symbol.asyncDispose]();
});

test.each([
  ["status", [], "grant your user a role that may list Leases in the namespace kube-system"],
  ["console", [], "`cloud-controller-host rbac --console` prints that of the console"],
  ["plan", ["--configure-cloud-routes=false"], "`cloud-controller-host rbac --plan` with the same flags prints one"],
  ["explain", ["node", "n"], "`cloud-controller-host rbac --plan` with the same flags prints one that only reads"],
] as const)(
  "%s names the role of its own user where a request is denied, not that of the host",
  async (name, argv, hint) => {
    const cloud = name === "plan" || name === "explain" ? [`--cloud-config=${lab.azure.config}`] : [];
    const { status, stdout, stderr } = await runCommand(name, [...argv, ...cloud, `--kubeconfig=${kubeconfig}`]);
    expect(status).toBe(1);
    expect(stdout + stderr).toContain(hint);
    expect(stdout + stderr).not.toContain("prints those of the enabled plugins");
  },
);
