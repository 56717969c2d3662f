import { describe, expect, setDefaultTimeout, test } from "bun:test";

import { kinds, labels } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { subjectOf } from "../../../host/plan/explain.ts";
import { joinNodes } from "../../kit/azure.ts";
import { type Printed, runCommand } from "../../kit/plan.ts";
import { addressesOf, balancedService, findService, patchService } from "../../kit/services.ts";
import { SandboxLab } from "../sandbox-lab.ts";

setDefaultTimeout(120_000);

const controllers = "--controllers=cloud-node-controller,service-lb-controller";

const explain = (lab: SandboxLab, ...argv: readonly string[]): Promise<Printed> =>
  runCommand("explain", [...argv, ...lab.flags([controllers])]);

/** With no more flags than where the cluster and the cloud are. */
const explainSimply = (lab: SandboxLab, ...argv: readonly string[]): Promise<Printed> =>
  runCommand("explain", ["--kubeconfig", lab.kubeconfig, `--cloud-config=${lab.azure.config}`, ...argv]);

/** A cluster whose Service and nodes a host has served; one node is excluded from load balancers. */
async function served(): Promise<{
  readonly lab: SandboxLab;
  readonly address: string;
  readonly names: readonly string[];
}> {
  const lab = await SandboxLab.open();
  const names = await joinNodes(lab.admin, lab.azure, 2);
  const [excluded = ""] = names;
  const metadata = { labels: { [labels.excludeFromLoadBalancers]: "" } };
  await lab.admin.patch(kinds.Node, { name: excluded }, "merge", { metadata });
  const service = balancedService("web");
  await lab.admin.create(kinds.Service, {
    ...service,
    metadata: {
      ...service.metadata,
      annotations: { "service.beta.kubernetes.io/azure-load-balancer-tcp-idle-timeout": "9" },
    },
  });
  const { host } = await lab.host([controllers]);
  const find = async (): Promise<string> => addressesOf(await findService(lab.admin, "web"))[0] ?? "";
  await eventually("the Service has an address", async () => (await find()) !== "", 60_000);
  await eventually(
    "an instance is in the pool",
    () => lab.azure.simulator.requests().some((line) => /^PUT .*virtualMachines\/1/u.test(line)),
    60_000,
  );
  host.stop();
  await host.finished;
  return { lab, address: await find(), names };
}

describe("explain", () => {
  test("prints what a Service has as a tree, its settings, its events, and each node's membership with the reason", async () => {
    const { lab, address, names } = await served();
    await using _ = lab;
    const [excluded, member] = names;
    lab.azure.simulator.clearLog();
    const { status, stdout, stderr } = await explain(lab, "service", "default/web");
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    for (const text of [
      "Service default/web\n  type ",
      address,
      "azure-load-balancer-tcp-idle-timeout  9 (annotation)",
      "\nload balancer kubernetes\n",
      "\n  frontend a",
      "TCP 80 to 80",
      "9 min",
      "\n  pool kubernetes\n",
      `${excluded}  not a member: label ${labels.excludeFromLoadBalancers}\n`,
      `${member}  member\n`,
      "\nsecurity rule k8s-azure-lb_allow_IPv4_",
      "event EnsuredLoadBalancer",
      "A host with these flags would change nothing about it.\n",
    ])
      expect(stdout.toLowerCase()).toContain(text.toLowerCase());
    const sent = lab.azure.simulator.requests().filter((line) => !/^GET |\/oauth2\/token/u.test(line));
    expect(sent).toEqual([]);
  });

  test("names the Services that share what a Service has, and how near the limits of the cloud that is", async () => {
    const { lab, address } = await served();
    await using _ = lab;
    const { metadata, ...other } = balancedService("other", { ports: [{ port: 81, protocol: "TCP" }] });
    const annotations = { "service.beta.kubernetes.io/azure-load-balancer-ipv4": address };
    await lab.admin.create(kinds.Service, { ...other, metadata: { ...metadata, annotations } });
    await lab.admin.create(kinds.Service, balancedService("apart"));
    const { host } = await lab.host([controllers]);
    for (const name of ["other", "apart"])
      await eventually(
        `${name} has an address`,
        async () => addressesOf(await findService(lab.admin, name)).length > 0,
        60_000,
      );
    host.stop();
    await host.finished;
    const { stdout } = await explain(lab, "service", "default/web");
    for (const line of [
      /^ {2}rules +3 of at most 1500$/mu,
      /^ {2}frontends +2 of at most 600$/mu,
      /^ {2}rules for each node +3 of at most 300$/mu,
      /^ {2}other Services here +default\/apart, default\/other$/mu,
      /^ {4}shared with +default\/other$/mu,
      /^ {4}tags of the public IP +2 of at most 50$/mu,
      /^security group nsg0\n {2}rules +\d+ of at most 1000$/mu,
      /^ {2}destination prefixes +\d+ of at most 4000$/mu,
    ])
      expect(stdout).toMatch(line);
  });

  test("names the Service that has a port, the last error with ARM's code and correlation ID, and the next retry", async () => {
    const { lab, address } = await served();
    await using _ = lab;
    const { metadata, ...other } = balancedService("late");
    const annotations = { "service.beta.kubernetes.io/azure-load-balancer-ipv4": address };
    await lab.admin.create(kinds.Service, { ...other, metadata: { ...metadata, annotations } });
    await lab.admin.create(kinds.Service, balancedService("denied"));
    const refused = { status: 403, code: "AuthorizationFailed", times: 20 };
    lab.azure.simulator.failNext({ method: "PUT", path: "/publicIPAddresses/" }, refused);
    expect((await explain(lab, "service", "default/late")).stdout).toMatch(
      /^ {2}waits for +a controller to pick it up$/mu,
    );
    const host = lab.start({ flags: [controllers] });
    for (const name of ["late", "denied"])
      await eventually(
        `${name} has failed`,
        async () => (await findService(lab.admin, name))?.status?.conditions?.some(({ status }) => status === "False"),
        60_000,
      );
    const denied = await explain(lab, "service", "default/denied", `--leader-url=https://127.0.0.1:${host.port}`);
    const late = await explain(lab, "service", "default/late", "--leader-url=https://127.0.0.1:1");
    await host.stop();
    expect(late.stdout).toMatch(
      /^ {2}last error +.*port 80\/TCP of frontend .* is taken by Service default\/web \(rule a/mu,
    );
    expect(late.stdout).toMatch(/^ {2}next retry +\d{4}-\d\d-\d\dT/mu);
    expect(late.status).toBe(1);
    expect(late.stdout).toContain("--leader-url=https://127.0.0.1:1: ");
    expect(denied.stdout).toMatch(/^ {2}last error +.*403 AuthorizationFailed: .*\(correlation ID [0-9a-f-]{36}\)$/mu);
    // Its own plan fails alike, with another correlation ID: nothing that a host would change.
    expect(denied.stdout).not.toContain("LoadBalancerReady].message");
    expect(denied.stdout).toMatch(
      /^latest writes by the leader\n(?: {2}.*\n)* {2}\d{4}-.*PUT \/subscriptions\/.*\/publicIPAddresses\/.*AuthorizationFailed/mu,
    );
  });

  test("shows what a host would change about a Service, and what is wrong with its annotations", async () => {
    const { lab } = await served();
    await using _ = lab;
    await patchService(lab.admin, "web", {
      metadata: { annotations: { "service.beta.kubernetes.io/azure-load-balancer-internal": "yes" } },
      spec: { ports: [{ port: 8080, protocol: "TCP" }] },
    });
    const { stdout } = await explain(lab, "service", "default/web");
    expect(stdout).toContain("does not make the load balancer internal; only true, in lower case, does");
    expect(stdout).toContain(
      "A host with these flags would change:\n\n~ change load balancer kubernetes in resource group rg0",
    );
    expect(stdout).toContain("frontendPort = 8080");
    // The tree is what exists, not what is planned.
    expect(stdout).toMatch(/^ {6}ports +Tcp 80 to 80$/mu);
    expect(stdout).not.toMatch(/^ {6}ports +Tcp 8080/mu);
    expect(stdout).toMatch(/^ {4}vmss0000001 +member$/mu);
    expect(stdout).toMatch(/^ {2}security group +nsg0 \(config key securityGroupName\)$/mu);
  });

  test("recommends another kind of pool or probe for a node that cannot be drained", async () => {
    const { lab, names } = await served();
    await using _ = lab;
    const [excluded = ""] = names;
    const { stdout } = await explain(lab, "node", excluded);
    expect(stdout).toMatch(/^drain of vmss0000000\n {2}cause +label node\.kubernetes\.io\/exclude-from-external/mu);
    expect(stdout).toMatch(/^ {2}advice +network interfaces in pools cannot be drained/mu);
    expect(stdout).toContain("clusterServiceLoadBalancerHealthProbeMode shared");
  });

  test("prints a node with its instance and its pools, and says that an instance does not exist", async () => {
    const { lab, names } = await served();
    await using _ = lab;
    const [, member = ""] = names;
    const running = await explain(lab, "node", member);
    expect(running.stdout).toMatch(/\n  instance +running\n/u);
    expect(running.stdout).toContain("pool kubernetes  member\n");
    await lab.azure.simulator.removeInstance(member);
    expect((await explain(lab, "node", member)).stdout).toMatch(/\n  instance +does not exist\n/u);
  });

  test("names nodes with the same provider ID, and does not call an instance running that no provider ID finds", async () => {
    const { lab, names } = await served();
    await using _ = lab;
    const [, member = ""] = names;
    const { spec } = await lab.admin.get(kinds.Node, { name: member });
    const providerID = spec?.providerID?.toUpperCase().replace(/^AZURE/u, "azure") ?? "";
    await lab.admin.create(kinds.Node, { metadata: { name: "twin" }, spec: { providerID } });
    await lab.admin.create(kinds.Node, { metadata: { name: "stranger" }, spec: { providerID: "azure://nonsense" } });
    const twin = await explain(lab, "node", "twin");
    expect(twin.stdout).toMatch(
      new RegExp(`\n  same provider ID +${member}: all but one of these nodes are wrong\n`, "u"),
    );
    expect((await explain(lab, "node", member)).stdout).toMatch(/\n {2}same provider ID +twin: /u);
    const stranger = await explain(lab, "node", "stranger");
    expect(stranger.stdout).toMatch(
      /\n {2}instance +none known to the cloud, nor by this provider ID: instance not found/u,
    );
    expect(stranger.stdout).not.toContain("same provider ID");
  });

  test("needs only a kubeconfig and a cloud config, takes the other flags from the leader, and shows private links and the source of each setting", async () => {
    await using lab = await SandboxLab.open();
    await joinNodes(lab.admin, lab.azure, 1);
    const { metadata, ...service } = balancedService("linked");
    const prefix = "service.beta.kubernetes.io/azure";
    const annotations = {
      [`${prefix}-load-balancer-internal`]: "true",
      [`${prefix}-pls-create`]: "true",
      [`${prefix}-load-balancer-tcp-idle-timeout`]: "9",
    };
    await lab.admin.create(kinds.Service, { ...service, metadata: { ...metadata, annotations } });
    const host = lab.start({ flags: [controllers, "--cluster-name=prod"] });
    await eventually(
      "the Service has an address",
      async () => addressesOf(await findService(lab.admin, "linked")).length > 0,
      60_000,
    );
    const leader = `--leader-url=https://127.0.0.1:${host.port}`;
    const led = await explainSimply(lab, leader, "service", "default/linked");
    const apart = await explainSimply(lab, "service", "default/linked");
    const own = await explainSimply(lab, leader, "--cluster-name=mine", "service", "default/linked");
    await host.stop();
    expect(own.stdout).toMatch(/^ {2}cluster name +mine \(--cluster-name\)$/mu);
    expect({ ...led, stdout: "" }).toEqual({ status: 0, stdout: "", stderr: "" });
    for (const line of [
      /^ {2}cluster name +prod \(--cluster-name\)$/mu,
      /^ {2}SKU +standard \(default of config key loadBalancerSku\)$/mu,
      /^ {2}security group +nsg0 \(config key securityGroupName\)$/mu,
      /^ {4}address +10\.240\.0\.\d+ \(chosen by Azure\)$/mu,
      /^ {6}idle timeout +9 min \(annotation azure-load-balancer-tcp-idle-timeout\)$/mu,
      /^ {6}probe +Tcp \d+ every 5 s \(default\)$/mu,
      /^ {4}private link service pls-\S+\n {6}state +Succeeded\n/mu,
      /^A host with these flags would change nothing about it\.$/mu,
    ])
      expect(led.stdout).toMatch(line);
    expect(apart.stdout).toMatch(/^ {2}cluster name +kubernetes \(--cluster-name\)$/mu);
  });

  test("shows what can be read when a part cannot, hides control characters, and leaves out what fails of other Services", async () => {
    await using lab = await SandboxLab.open();
    await joinNodes(lab.admin, lab.azure, 1);
    const { metadata, ...service } = balancedService("web");
    const prefix = "service.beta.kubernetes.io/azure";
    const hostile = { [`${prefix}-pip-tags`]: "a=b\u001b[2J\nA host with these flags would change nothing about it." };
    await lab.admin.create(kinds.Service, { ...service, metadata: { ...metadata, annotations: hostile } });
    const wrong = balancedService("wrong");
    const invalid = { [`${prefix}-load-balancer-tcp-idle-timeout`]: "no number" };
    await lab.admin.create(kinds.Service, { ...wrong, metadata: { ...wrong.metadata, annotations: invalid } });
    const { stdout: whole } = await explainSimply(lab, "service", "default/web");
    expect(whole).toContain("azure-pip-tags  a=b\\u{001b}[2J\\nA host");
    expect(whole).not.toContain("no number");
    const denied = { status: 403, code: "AuthorizationFailed", times: 1_000 };
    lab.azure.simulator.failNext({ method: "GET", path: "/networkSecurityGroups" }, denied);
    const { status, stdout } = await explainSimply(lab, "service", "default/web");
    expect(status).toBe(1);
    expect(stdout).toStartWith("Service default/web\n  type ");
    expect(stdout).toMatch(/^Not planned:\n {2}cloud "azure": .*AuthorizationFailed/mu);
    expect(stdout).not.toMatch(/^A host with these flags would change nothing/mu);
    expect(stdout).not.toContain("no number");
  });

  test("names a part that cannot be read once, also when a failure that passed lets the plan be made again", async () => {
    await using lab = await SandboxLab.open();
    await joinNodes(lab.admin, lab.azure, 1);
    for (const name of ["web", "late"]) await lab.admin.create(kinds.Service, balancedService(name));
    const forbidden = { status: 403, reason: "Forbidden", message: "events is forbidden" };
    lab.api.faults.add({
      match: { method: "GET", path: /\/events\b/u },
      effect: forbidden,
      times: 1_000,
    });
    const passing = { status: 400, reason: "BadRequest", message: "not for a moment" };
    lab.api.faults.add({ match: { method: "GET", path: /\/services\/late\b/u }, effect: passing, times: 1 });
    const { stdout } = await explain(lab, "service", "default/web");
    expect(stdout.match(/events is forbidden/gu)).toHaveLength(1);
  });

  test("gives the API server's own reason when what was asked for cannot be read", async () => {
    await using lab = await SandboxLab.open();
    await lab.admin.create(kinds.Service, balancedService("web"));
    const effect = { status: 403, reason: "Forbidden", message: "services is forbidden" };
    lab.api.faults.add({ match: { method: "GET", path: /\/services\/web\b/u }, effect, times: 1_000 });
    const { status, stdout, stderr } = await explain(lab, "service", "default/web");
    expect(status).toBe(1);
    expect(stdout + stderr).toContain("services is forbidden");
    expect(stdout + stderr).not.toContain("does not exist");
  });

  test("suggests the object with a similar name, or a Service of that name in another namespace", async () => {
    await using lab = await SandboxLab.open();
    await lab.admin.create(kinds.Service, balancedService("web"));
    const [node = ""] = await joinNodes(lab.admin, lab.azure, 1);
    for (const [kind, name, known] of [
      ["service", "defualt/web", "default/web"],
      ["service", "production/web", "default/web"],
      ["service", "default/wbe", "default/web"],
      ["node", node.slice(0, -1), node],
    ] as const)
      expect((await explain(lab, kind, name)).stdout).toContain(
        `${name} does not exist (did you mean ${known}?): check`,
      );
  });

  test("names some of the objects that there are where none is similar", async () => {
    await using lab = await SandboxLab.open();
    for (const name of ["a", "b", "c", "d", "e", "f", "g"])
      await lab.admin.create(kinds.Service, balancedService(name));
    const named = "default/a, default/b, default/c, default/d, default/e, and 2 more";
    for (const name of ["production/frontend", "default/nope"])
      expect((await explain(lab, "service", name)).stdout).toContain(
        `${name} does not exist (there are ${named}): check`,
      );
  });

  test("names what was asked for when it does not exist, and how to ask", async () => {
    await using lab = await SandboxLab.open();
    for (const [kind, name, sentence] of [
      ["service", "default/none", "Service default/none does not exist: check its namespace and name, and which"],
      ["node", "none", "Node none does not exist: check its name, and which"],
    ] as const) {
      const { status, stdout } = await explain(lab, kind, name);
      expect({ status, stdout }).toEqual({
        status: 1,
        stdout: `Not explained:\n  ${sentence} cluster --kubeconfig names\n`,
      });
    }
    const wrong = await explain(lab, "pod", "x");
    expect(wrong).toEqual({
      status: 1,
      stdout: "",
      stderr:
        'Error: cannot explain: "pod x" is not an object that it can explain; use service NAMESPACE/NAME or node NAME\n',
    });
    for (const [words, problem] of [
      [["node"], '"node" needs a name'],
      [["service/web"], '"service/web" is not an object that it can explain'],
    ] as const)
      expect((await runCommand("explain", [...words, "--cloud-config=azure.yaml"])).stderr).toBe(
        `Error: cannot explain: ${problem}; use service NAMESPACE/NAME or node NAME\n`,
      );
    expect(() => subjectOf([])).toThrow("no object is given; use service NAMESPACE/NAME or node NAME");
    expect(() => subjectOf(["node"])).toThrow('"node" needs a name; use service NAMESPACE/NAME or node NAME');
    expect(() => subjectOf(["service", "web"])).toThrow(
      'the Service "web" has no namespace; use service NAMESPACE/web',
    );
  });

  test("a kind is known under each of kubectl's names", () => {
    for (const word of ["service", "services", "svc"])
      expect(subjectOf([word, "default/web"])).toEqual({ kind: "service", namespace: "default", name: "web" });
    for (const word of ["node", "nodes", "no"]) expect(subjectOf([word, "n"])).toEqual({ kind: "node", name: "n" });
    expect(() => subjectOf(["constructor", "n"])).toThrow('"constructor n" is not an object that it can explain');
  });
});
