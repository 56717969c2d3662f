import { describe, expect, setDefaultTimeout, test } from "bun:test";

import { kinds } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import type { PlanDocument } from "../../../host/changes/plan-schema.ts";
import { joinNodes } from "../../kit/azure.ts";
import { serveCloud } from "../../kit/cloud-server.ts";
import { planDocumentOf, type Printed, runCommand } from "../../kit/plan.ts";
import { addressesOf, balancedService, deleteService, findService } from "../../kit/services.ts";
import { SandboxLab } from "../sandbox-lab.ts";

setDefaultTimeout(120_000);

const allControllers = [
  "--controllers=*",
  "--configure-cloud-routes",
  "--allocate-node-cidrs",
  "--cluster-cidr=10.244.0.0/16",
];

const plan = (lab: SandboxLab, flags: readonly string[] = allControllers): Promise<Printed> =>
  runCommand("plan", lab.flags(flags));

const planned = (lab: SandboxLab, flags: readonly string[] = allControllers): Promise<PlanDocument> =>
  planDocumentOf(lab.flags(flags));

/** Requests that may change something: neither reads nor the login. */
const azureWrites = (lab: SandboxLab): readonly string[] =>
  lab.azure.simulator.requests().filter((line) => !/^(?:GET|HEAD) |\/oauth2\/token/u.test(line));

const last = (text: string): string => text.trimEnd().split("\n").at(-1) ?? "";

const headings = ({ changes }: PlanDocument): readonly string[] =>
  changes.map(({ action, title }) => `${action} ${title.replace(/ kubernetes-a[0-9a-f]+/u, " kubernetes-UID")}`);

/** The running host's status of the Service and of every node is complete. */
async function settled(lab: SandboxLab, service: string): Promise<void> {
  await eventually(
    "the Service has an address",
    async () => addressesOf(await findService(lab.admin, service)).length > 0,
    60_000,
  );
  await eventually(
    "every node has a route and is in a pool",
    async () => {
      const nodes = await lab.admin.list(kinds.Node);
      return nodes.every(({ status }) => status?.conditions?.some(({ reason }) => reason === "RouteCreated"));
    },
    60_000,
  );
}

describe("plan", () => {
  test("prints what the host would write to Azure and Kubernetes, sends only reads, and prints it again the same", async () => {
    await using lab = await SandboxLab.open();
    await joinNodes(lab.admin, lab.azure, 2);
    await lab.admin.create(kinds.Service, balancedService("web"));
    lab.azure.simulator.clearLog();
    const before = lab.api.requests.list().length;

    const { status, stdout, stderr } = await plan(lab);
    expect({ status, stderr }).toEqual({ status: 2, stderr: "" });
    expect(last(stdout)).toBe(
      "Plan: 2 to create, 5 to change, 0 to delete in Azure; 0 to create, 3 to change, 0 to delete in Kubernetes",
    );
    expect(stdout).toContain(
      "+ create load balancer kubernetes in resource group rg0\n    because of Service default/web\n",
    );
    expect(stdout).toContain("    because of Node vmss0000000, Node vmss0000001\n");
    expect(stdout).toContain('    + ipAddress = "(known after apply)"\n');
    expect(stdout).not.toMatch(/192\.0\.2\.\d/u);

    expect(azureWrites(lab)).toEqual([]);
    const sent = lab.api.requests.list().slice(before);
    expect(sent.length).toBeGreaterThan(2);
    expect(sent.filter(({ method }) => method !== "GET").map(({ path }) => path)).toEqual([]);
    expect(lab.lease()).toBeUndefined();

    expect((await plan(lab)).stdout).toBe(stdout);
  });

  test("names the resources that the host then writes, and nothing once it has written them", async () => {
    await using lab = await SandboxLab.open();
    await joinNodes(lab.admin, lab.azure, 3);
    await lab.admin.create(kinds.Service, balancedService("web"));
    const { changes } = await planned(lab);
    lab.azure.simulator.clearLog();

    const { host } = await lab.host(allControllers);
    await settled(lab, "web");
    host.stop();
    await host.finished;
    const paths = azureWrites(lab).map((line) => line.replace(/^PUT /u, "").replace(/\?.*$/u, "").toLowerCase());
    const written = new Set(paths);
    const cloud = changes.filter(({ system }) => system === "cloud").map(({ resource }) => resource.toLowerCase());
    expect(cloud.toSorted()).toEqual([...written].toSorted());

    expect(await plan(lab)).toEqual({ status: 0, stdout: "No changes.\n", stderr: "" });
  });

  test("marks what a deleted Service takes away from traffic", async () => {
    await using lab = await SandboxLab.open();
    await joinNodes(lab.admin, lab.azure, 1);
    for (const name of ["web", "api"]) await lab.admin.create(kinds.Service, balancedService(name));
    const { host } = await lab.host(allControllers);
    for (const name of ["web", "api"]) await settled(lab, name);
    host.stop();
    await host.finished;
    const address = addressesOf(await findService(lab.admin, "web"))[0];
    await deleteService(lab.admin, "web");

    const document = await planned(lab);
    expect(headings(document)).toEqual([
      "change load balancer kubernetes in resource group rg0",
      "change security group nsg0 in resource group rg0",
      "delete public IP kubernetes-UID in resource group rg0",
      "delete Service default/web",
    ]);
    const [balancer, , publicIP] = document.changes;
    expect(balancer?.interruptions.map((text) => text.replace(/a[0-9a-f]{31}/u, "UID"))).toEqual([
      "frontend UID is removed",
      "rule UID-TCP-80 is removed",
    ]);
    expect(balancer?.reasons).toEqual(["Service default/web"]);
    expect(publicIP?.interruptions).toEqual([`address ${address} is released`]);
    const { stdout } = await plan(lab);
    expect(last(stdout)).toEndWith("; 2 interrupt traffic");
  });

  test("is incomplete, never without changes, when something cannot be read", async () => {
    await using lab = await SandboxLab.open();
    await joinNodes(lab.admin, lab.azure, 1);
    await lab.admin.create(kinds.Service, balancedService("web"));
    const denied = { status: 403, code: "AuthorizationFailed", times: 1_000 };
    lab.azure.simulator.failNext({ method: "GET", path: "/loadBalancers" }, denied);

    const { status, stdout } = await plan(lab, ["--only=services", ...allControllers]);
    expect(status).toBe(1);
    expect(stdout).toContain("Not planned:\n");
    expect(stdout).toContain("default/web: ");
    expect(stdout).toContain("AuthorizationFailed");
    expect(last(stdout)).toStartWith("Incomplete plan: ");
  });

  test("plans only for the chosen controllers, and shows only what one Service causes", async () => {
    await using lab = await SandboxLab.open();
    await joinNodes(lab.admin, lab.azure, 1);
    for (const name of ["web", "api"]) await lab.admin.create(kinds.Service, balancedService(name));
    expect(headings(await planned(lab, ["--only=nodes", ...allControllers]))).toEqual(["change Node vmss0000000"]);
    // What the others need, such as --cluster-cidr, is not asked for.
    const files = [`--kubeconfig=${lab.kubeconfig}`, `--cloud-config=${lab.azure.config}`];
    expect((await runCommand("plan", ["--only=services", ...files])).status).toBe(2);
    const one = await planned(lab, ["--only=services", "--service=default/api", ...allControllers]);
    expect(headings(one)).toContain("create public IP kubernetes-UID in resource group rg0");
    expect(one.changes.filter(({ title }) => title.startsWith("public IP"))).toHaveLength(1);
    expect(one.changes.map(({ title }) => title)).not.toContain("Service default/web");
  });

  test("lists the calls of a cloud that cannot plan", async () => {
    await using lab = await SandboxLab.open();
    await using cloud = await serveCloud();
    await lab.admin.create(kinds.Service, balancedService("web"));
    const flags = ["--controllers=service-lb-controller", ...cloud.flags, `--cloud-config=${cloud.config}`];
    const { status, stdout } = await plan(lab, flags);
    expect(stdout).toContain("+ create test-cloud ensureLoadBalancer default/web\n");
    expect(status).toBe(2);
    expect(cloud.changes).toEqual([]);
  });

  test("reports every wrong option at once, and exits with 1", async () => {
    await using lab = await SandboxLab.open();
    const { status, stdout, stderr } = await plan(lab, ["--output=yaml", "--only=service", "--service=web"]);
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    for (const text of [
      "--output=yaml: must be text or json",
      "did you mean services?",
      "--service=web: must be NAMESPACE/NAME",
    ])
      expect(stderr).toContain(text);
  });
});
