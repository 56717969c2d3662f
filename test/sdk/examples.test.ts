import { expect, setDefaultTimeout, test } from "bun:test";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

import { kinds, labelOf, labels, taints, taintsOf } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { openSandbox } from "../../host/sandbox-host.ts";
setDefaultTimeout(120_000);

const examples = join(import.meta.dir, "../../sdk/examples");

for (const example of ["zone-labeler", "folder-cloud", "internal-load-balancers", "node-pools", "job-cleanup"])
  test(`the tests of ${example} pass with the command that its author runs`, async () => {
    const child = Bun.spawn([process.execPath, "test", "./plugin.test.ts"], {
      cwd: join(examples, example),
      stdout: "pipe",
      stderr: "pipe",
    });
    const [output, status] = await Promise.all([child.stderr.text(), child.exited]);
    expect([status, output]).toEqual([0, expect.stringMatching(/\b0 fail\b/u)]);
  });

test("a cloud of files in a folder runs with all five controllers and a third-party controller", async () => {
  await using sandbox = await openSandbox({
    nodes: 2,
    flags: [
      `--plugin-dir=${examples}`,
      "--cloud-provider=folder",
      "--controllers=*",
      "--allocate-node-cidrs",
      "--cluster-cidr=10.244.0.0/16",
      "--configure-cloud-routes=true",
      "--route-reconciliation-period=1s",
    ],
  });
  const { api, cloud } = sandbox;
  const node = () => api.get(kinds.Node, { name: "folder-0" });
  await eventually(
    "cloud-node initializes, the example labels",
    () => {
      const current = node();
      return (
        current !== undefined &&
        labelOf(current, labels.zone) === "here-1" &&
        labelOf(current, "example.com/zone-short") === "1" &&
        !taintsOf(current).some(({ key }) => key === taints.uninitialized)
      );
    },
    30_000,
  );
  await eventually("node-ipam allocates a pod CIDR", () => node()?.spec?.podCIDR !== undefined, 30_000);
  const resources = (collection: string): Promise<readonly string[]> =>
    readdir(join(sandbox.directory, "cloud", collection)).catch(() => []);
  await eventually("route creates a route per node", async () => (await resources("routes")).length === 2, 30_000);

  api.create(kinds.Service, {
    metadata: { name: "web", namespace: "default" },
    spec: { type: "LoadBalancer", selector: { app: "web" }, ports: [{ port: 80, protocol: "TCP" }] },
  });
  await eventually(
    "service-lb publishes the address",
    () =>
      api.get(kinds.Service, { name: "web", namespace: "default" })?.status?.loadBalancer?.ingress?.[0]?.ip ===
      "198.51.100.1",
    30_000,
  );

  await cloud?.removeInstance("folder-1");
  api.update(
    kinds.Node,
    { name: "folder-1" },
    (current) => ({ ...current, status: { ...current.status, conditions: [{ type: "Ready", status: "Unknown" }] } }),
    "status",
  );
  await eventually(
    "lifecycle deletes the node of the deleted instance",
    () => api.get(kinds.Node, { name: "folder-1" }) === undefined,
    30_000,
  );
  expect(sandbox.host.status.running).toBe(true);
});

test("a cloud without a simulator gets an API server and a host alone", async () => {
  const directory = join(import.meta.dir, "fixtures");
  await using sandbox = await openSandbox({ flags: [`--plugin-dir=${directory}`, "--cloud-provider=bare"] });
  expect(sandbox.cloud).toBeUndefined();
  await eventually("the host leads", () => sandbox.host.status.leading);
  expect(sandbox.api.list(kinds.Node)).toEqual([]);
});

test("a Service that the cloud cannot serve gets one event, from the leader, and service-lb stays listed as skipped", async () => {
  const flags = [
    `--plugin-dir=${join(import.meta.dir, "fixtures")}`,
    "--cloud-provider=bare",
    "--controllers=service-lb-controller",
  ];
  await using sandbox = await openSandbox({ flags });
  const main = join(import.meta.dir, "../../host/main.ts");
  const connected = [`--kubeconfig=${join(sandbox.directory, "kubeconfig")}`, "--secure-port=0"];
  const standby = Bun.spawn([process.execPath, "--no-install", main, ...flags, ...connected], { stderr: "pipe" });
  try {
    await eventually("the host leads", () => sandbox.host.status.running, 30_000);
    for await (const chunk of standby.stderr)
      if (Buffer.from(chunk).toString().includes("ttempting to acquire leader lease")) break;
    sandbox.api.create(kinds.Service, {
      metadata: { name: "web", namespace: "default" },
      spec: { type: "LoadBalancer", ports: [{ port: 80, protocol: "TCP" }] },
    });
    const events = () => sandbox.api.list(kinds.Event).filter(({ involvedObject }) => involvedObject.name === "web");
    await eventually("the event", () => events().length > 0, 40_000);
    // The standby has observed the Service as well; whatever event it recorded is sent before it exits.
    standby.kill("SIGTERM");
    await standby.exited;
    expect(events()).toEqual([
      expect.objectContaining({
        type: "Warning",
        reason: "LoadBalancerUnsupported",
        count: 1,
        message: expect.stringContaining('"bare" does not support external load balancers'),
      }),
    ]);
  } finally {
    standby.kill("SIGKILL");
    await standby.exited;
  }
  const announced = sandbox.api.list(kinds.Event).filter(({ reason }) => reason === "ControllerSkipped");
  expect(announced.map(({ message }) => message)).toEqual([
    "service-lb-controller does not run in generation 1: the cloud provider does not support external load balancers",
  ]);
  const log = await readFile(join(sandbox.directory, "host.log"), "utf8");
  expect(log).not.toContain("Starting controller");
});
