import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { appendFile } from "node:fs/promises";

import { Value } from "@sinclair/typebox/value";
import { kinds, type Service } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { type PlanDocument, planSchema } from "../../../host/changes/plan-schema.ts";
import { type JsonObject, objectsAt } from "../../../plugins/azure-cloud/json.ts";
import type { Failure } from "../../../plugins/azure-cloud/simulator/faults.ts";
import { joinNodes } from "../../kit/azure.ts";
import { planDocumentOf, runCommand } from "../../kit/plan.ts";
import { addressesOf, balancedService, findService } from "../../kit/services.ts";
import { SandboxLab } from "../sandbox-lab.ts";

setDefaultTimeout(120_000);

const controllers = "--controllers=cloud-node-controller,service-lb-controller";
const annotation = "service.beta.kubernetes.io/azure-load-balancer-resource-group";
const balancerPath = "/providers/Microsoft.Network/loadBalancers/kubernetes";

/** A cluster with a node and a Service that no host has served yet. */
async function fresh(): Promise<SandboxLab> {
  const lab = await SandboxLab.open();
  await joinNodes(lab.admin, lab.azure, 1);
  await lab.admin.create(kinds.Service, balancedService("web"));
  return lab;
}

async function served(): Promise<SandboxLab> {
  const lab = await fresh();
  const { host } = await lab.host([controllers]);
  await eventually(
    "the Service is served, and the node is in its pool",
    async () =>
      addressesOf(await findService(lab.admin, "web")).length > 0 &&
      lab.azure.simulator.requests().some((line) => /^PUT .*virtualMachines\/0/u.test(line)),
    60_000,
  );
  host.stop();
  await host.finished;
  return lab;
}

const planOf = (lab: SandboxLab): Promise<PlanDocument> => planDocumentOf(lab.flags([controllers]));

/** Puts the load balancer as another writer would. */
function changeBalancer(lab: SandboxLab, change: (properties: JsonObject) => JsonObject): void {
  const found = lab.azure.simulator.get(balancerPath);
  if (found === undefined) throw new Error("missing: load balancer");
  lab.azure.simulator.put(found.id, { ...found, properties: { ...found.properties, ...change(found.properties) } });
}

const idleTimeout = "service.beta.kubernetes.io/azure-load-balancer-tcp-idle-timeout";

/** A Service whose idle timeout is not a number. */
function refusedService(name: string): Service {
  const { metadata, ...other } = balancedService(name);
  return { ...other, metadata: { ...metadata, annotations: { [idleTimeout]: "soon" } } };
}

const throttled = (seconds: number, times: number): Failure => ({
  status: 429,
  code: "TooManyRequests",
  headers: { "Retry-After": String(seconds) },
  times,
});

const isCondition = ({ path }: { readonly path: string }): boolean => path.startsWith("status.conditions");

describe("a plan in trouble", () => {
  test("is complete with a Service that is refused, and names it with the reason", async () => {
    await using lab = await fresh();
    await lab.admin.create(kinds.Service, refusedService("odd"));
    const { complete, failures, refused, changes } = await planOf(lab);
    expect({ complete, failures }).toEqual({ complete: true, failures: [] });
    const reason = expect.stringMatching(/azure-load-balancer-tcp-idle-timeout.*soon/su);
    expect(refused).toEqual([{ resource: "Service default/odd", reason }]);
    expect(changes.flatMap(({ system, reasons }) => (system === "cloud" ? reasons : []))).not.toContain(
      "Service default/odd",
    );
    const odd = changes.find(({ resource }) => resource === "Service default/odd");
    expect(odd?.fields.map(({ path }) => path)).toContain("status.conditions[LoadBalancerReady].message");
    const one = await runCommand("plan", [...lab.flags([controllers]), "--service=default/web"]);
    expect(one.status).toBe(2);
    expect(one.stdout).not.toContain("odd");
    const misspelled = await runCommand("plan", [...lab.flags([controllers]), "--service=default/wep"]);
    expect(misspelled.status).toBe(1);
    expect(misspelled.stderr).toContain("--service=default/wep: the cluster has no such Service");
    const known = await runCommand("plan", [...lab.flags([controllers]), "--service=default/odd", "--only=nodes"]);
    expect(known).toMatchObject({ status: 0, stderr: "" });
    const other = await runCommand("explain", ["service", "default/odd", ...lab.flags([controllers])]);
    expect(other.status).toBe(0);
    expect(other.stdout).toMatch(/A host with these flags refuses it:\n {2}.*idle-timeout.*soon/u);
  });

  test("has no changes once a host has refused a Service: the exit status is 0, and the text names it", async () => {
    await using lab = await served();
    await lab.admin.create(kinds.Service, refusedService("odd"));
    const { host } = await lab.host([controllers]);
    const isRefused = async (): Promise<boolean> =>
      (await findService(lab.admin, "odd"))?.status?.conditions?.some(({ status }) => status === "False") ?? false;
    await eventually("the Service has its condition", isRefused, 60_000);
    host.stop();
    await host.finished;
    const { status, stdout } = await runCommand("plan", lab.flags([controllers]));
    expect(stdout).toMatch(/^Refused; see explain:\n {2}Service default\/odd: .*\n\nNo changes; 1 refused\.\n$/u);
    expect(status).toBe(0);
  });

  test("waits as long as throttled reads ask for, and is complete without a trace of it", async () => {
    await using lab = await served();
    await lab.admin.create(kinds.Service, balancedService("late"));
    lab.azure.simulator.failNext({ method: "GET", path: "/publicIPAddresses" }, throttled(2, 2));
    const started = performance.now();
    const { complete, failures, changes } = await planOf(lab);
    expect(performance.now() - started).toBeGreaterThan(4_000);
    expect({ complete, failures }).toEqual({ complete: true, failures: [] });
    expect(changes.find(({ resource }) => resource === "Service default/late")).toBeDefined();
    expect(changes.flatMap(({ fields }) => fields.filter(isCondition))).toEqual([]);
  });

  test("names the throttling that lasts longer than its own time", async () => {
    await using lab = await fresh();
    lab.azure.simulator.failNext({ method: "GET", path: /\/loadBalancers$/u }, throttled(60, 1_000));
    const flags = ["--plan-timeout=8", "--output=json", ...lab.flags([controllers])];
    const { status, stdout } = await runCommand("plan", flags);
    expect(status).toBe(1);
    const { complete, failures } = Value.Parse(planSchema, JSON.parse(stdout));
    expect(complete).toBe(false);
    expect(failures).toEqual([
      "plan: the time was over before the controllers had finished",
      expect.stringMatching(/^service default\/web: .*ARM throttles reads of microsoft.network\/loadbalancers/su),
    ]);
  });

  test("is made again after a failure that passed, which leaves no condition in it", async () => {
    await using lab = await served();
    await lab.admin.create(kinds.Service, balancedService("late"));
    lab.azure.simulator.failNext({ method: "GET", path: "/publicIPAddresses" }, { status: 400, code: "BadRequest" });
    const { complete, failures, changes } = await planOf(lab);
    expect({ complete, failures }).toEqual({ complete: true, failures: [] });
    expect(changes.find(({ resource }) => resource === "Service default/late")).toBeDefined();
    expect(changes.flatMap(({ fields }) => fields.filter(isCondition))).toEqual([]);
  });

  test("reads no object that it watches: an answer that is late would give Services other priorities", async () => {
    await using lab = await fresh();
    await lab.admin.create(kinds.Service, balancedService("xyz"));
    const prompt = await planOf(lab);
    lab.api.faults.add({ match: { method: "GET", path: /\/(?:services|nodes)\/[^/?]+$/u }, effect: "hang", times: 10 });
    const { complete, changes } = await planDocumentOf(lab.flags([controllers, "--plan-timeout=20"]));
    expect(complete).toBe(true);
    expect(changes).toEqual([...prompt.changes]);
  });

  test("names the Service whose resource group cannot be read, and plans the others", async () => {
    await using lab = await fresh();
    const { metadata, ...other } = balancedService("elsewhere");
    await lab.admin.create(kinds.Service, {
      ...other,
      metadata: { ...metadata, annotations: { [annotation]: "hidden" } },
    });
    const denied = { status: 403, code: "AuthorizationFailed", times: 1_000 };
    lab.azure.simulator.failNext({ method: "GET", path: "/resourceGroups/hidden/" }, denied);
    const { complete, failures, changes } = await planOf(lab);
    expect(complete).toBe(false);
    expect(failures).toEqual([expect.stringMatching(/^service default\/elsewhere: .*AuthorizationFailed/su)]);
    expect(changes.flatMap(({ reasons }) => reasons)).toContain("Service default/web");
  });

  test("ends within seconds with the kind that may not be read, and needs no Services to plan for nodes", async () => {
    await using lab = await fresh();
    const effect = { status: 403, reason: "Forbidden", message: "services is forbidden: the user cannot list it" };
    lab.api.faults.add({ match: { method: "GET", path: /\/services\b/u }, effect, times: 1_000 });
    const started = performance.now();
    const { status, stdout, stderr } = await runCommand("plan", lab.flags([controllers]));
    expect(performance.now() - started).toBeLessThan(40_000);
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect(stderr).toMatch(
      /^Error: the plan cannot be made: services cannot be read: .*the user cannot list it.*rbac --plan/u,
    );
    const nodes = await planDocumentOf(["--only=nodes", ...lab.flags([controllers])]);
    expect(nodes.complete).toBe(true);
    expect(nodes.changes.map(({ title }) => title)).toEqual(["Node vmss0000000"]);
  });

  test("names its own limit when the API server does not answer", async () => {
    await using lab = await fresh();
    lab.api.faults.add({ match: { method: "GET", path: /\/services\b/u }, effect: "hang", times: 1_000 });
    const { status, stdout, stderr } = await runCommand("plan", [...lab.flags([controllers]), "--plan-timeout=3"]);
    expect({ status, stdout, stderr }).toEqual({
      status: 1,
      stdout: "",
      stderr: "Error: the plan cannot be made: not all reads were answered within 3 s (--plan-timeout=3)\n",
    });
  });

  test("names the Secret of a namespace that it may not read", async () => {
    await using lab = await fresh();
    const effect = { status: 403, reason: "Forbidden", message: "secrets is forbidden in kube-system" };
    lab.api.faults.add({ match: { path: /\/namespaces\/kube-system\/secrets\b/u }, effect, times: 1_000 });
    const flags = [`--kubeconfig=${lab.kubeconfig}`, "--enable-dynamic-reloading", controllers];
    const { status, stderr } = await runCommand("plan", [...flags, "--plan-timeout=20"]);
    expect(status).toBe(1);
    expect(stderr).toContain("secrets is forbidden in kube-system");
  });

  test("continues with a new token when its own expires in the middle", async () => {
    await using lab = await fresh();
    const hold = lab.azure.simulator.hold({ method: "GET", path: /\/loadBalancers$/u });
    const planning = planOf(lab);
    await eventually("the plan reads the load balancers", () => hold.waiting() > 0, 60_000);
    lab.azure.simulator.revokeTokens();
    hold.release();
    const { complete, changes } = await planning;
    expect(complete).toBe(true);
    expect(changes.length).toBeGreaterThan(3);
  });

  test("lists what another manager is writing, and plans to write again what has failed", async () => {
    await using lab = await served();
    changeBalancer(lab, () => ({ provisioningState: "Updating" }));
    const updating = await planOf(lab);
    expect(updating.changes).toEqual([]);
    expect(updating.inFlight).toEqual([
      {
        resource: expect.stringMatching(/\/loadBalancers\/kubernetes$/u),
        title: "load balancer kubernetes in resource group rg0",
        state: "Updating",
      },
    ]);
    const { stdout } = await runCommand("plan", lab.flags([controllers]));
    expect(stdout).toContain(
      "In flight, by another manager:\n  load balancer kubernetes in resource group rg0: Updating\n",
    );
    changeBalancer(lab, () => ({ provisioningState: "Failed" }));
    const failed = await planOf(lab);
    expect(failed.inFlight).toEqual([]);
    expect(failed.changes.map(({ title, fields }) => [title, fields])).toEqual([
      [
        "load balancer kubernetes in resource group rg0",
        [{ path: "provisioningState", before: "Failed", after: "Succeeded" }],
      ],
    ]);
  });

  test("plans again what another manager changes between its read and its write", async () => {
    await using lab = await served();
    await lab.admin.create(kinds.Service, balancedService("late"));
    const hold = lab.azure.simulator.hold({ method: "GET", path: /\/loadBalancers$/u }, "response");
    const planning = planOf(lab);
    await eventually("the plan has read the load balancers", () => hold.waiting() > 0, 60_000);
    const foreign = {
      name: "foreign",
      properties: { protocol: "Tcp", port: 7, intervalInSeconds: 5, numberOfProbes: 2 },
    };
    changeBalancer(lab, (properties) => ({ probes: [...objectsAt(properties, "probes"), foreign] }));
    hold.release();
    const { complete, failures, changes } = await planning;
    expect({ complete, failures }).toEqual({ complete: true, failures: [] });
    const balancer = changes.find(({ title }) => title.startsWith("load balancer"));
    expect(balancer?.interruptions).toEqual([]);
    const touched = balancer?.fields.filter(({ path }) => path.startsWith("probes[foreign]"));
    expect(touched).toEqual([]);
    expect(balancer?.reasons).toContain("Service default/late");
  });

  test("contains no secret: of the config, of Secrets, of annotations, of tokens, in its text, its document, its errors", async () => {
    await using lab = await fresh();
    const canary = "c4n4ry-9f31";
    const plugins = await lab.plugin(
      "secretive",
      `import { defineController, kinds } from "cloud-controller-host/sdk";
       export default defineController({
         name: "secretive-controller",
         permissions: [],
         construct: () => ({ client, log }) => ({
           run: async () => {
             const metadata = { namespace: "default", name: "own", annotations: { "corp.example/join-token": "${canary}" } };
             await client.create(kinds.Secret, { metadata, stringData: { key: "${canary}" } });
             await client.create(kinds.ConfigMap, { metadata: { ...metadata, name: "map" }, data: { password: "${canary}" } });
             log.error("failed", { error: new Error("client_secret=${canary}") });
           },
         }),
       });`,
    );
    const annotations = { "corp.example/password": canary };
    await lab.admin.patch(kinds.Service, { namespace: "default", name: "web" }, "merge", { metadata: { annotations } });
    await appendFile(lab.azure.config, `aadClientCertPassword: ${canary}\n`);
    const [, secret = "-"] = /aadClientSecret"?: "?([0-9a-f-]{36})/u.exec(lab.azure.configText) ?? [];
    const flags = lab.flags([`${controllers},secretive-controller`, plugins]);
    const printed = [
      await runCommand("plan", flags),
      await runCommand("plan", ["--output=json", ...flags]),
      await runCommand("explain", ["service", "default/web", ...flags]),
      await runCommand("explain", ["service", "default/web", "--output=json", ...flags]),
    ];
    expect(printed[0]?.stdout).toContain("+ create Secret default/own");
    expect(printed[0]?.stdout).toContain("secretive-controller: failed: client_secret=[redacted]");
    await appendFile(lab.azure.config, `vmType: ${canary.length}\naadClientSecret: [${canary}]\n`);
    printed.push(await runCommand("plan", flags));
    expect(printed.at(-1)?.status).toBe(1);
    for (const { stdout, stderr } of printed)
      for (const hidden of [canary, secret, lab.api.tokens.of("admin")]) expect(stdout + stderr).not.toContain(hidden);
  });
});
