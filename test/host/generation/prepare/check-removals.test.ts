import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { appendFile, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { kinds } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { joinNodes } from "../../../kit/azure.ts";
import { runCommand } from "../../../kit/plan.ts";
import { addressesOf, balancedService, findService } from "../../../kit/services.ts";
import { SandboxLab } from "../../sandbox-lab.ts";

setDefaultTimeout(120_000);

const controllers = [
  "--controllers=service-lb-controller,cloud-node-controller",
  "--concurrent-service-syncs=20",
  "--enable-dynamic-reloading",
];

const auditLog = ({ azure }: SandboxLab): string => join(azure.folder, "audit.log");

/** A lab with a host that has brought so many Services to Azure. */
async function balanced(lab: SandboxLab, count: number) {
  await joinNodes(lab.admin, lab.azure, 2);
  const names = Array.from({ length: count }, (_, index) => `web${index}`);
  for (const name of names) await lab.admin.create(kinds.Service, balancedService(name));
  const { host, log } = await lab.host([...controllers, `--audit-log-path=${auditLog(lab)}`]);
  await eventually(
    "all Services have addresses",
    async () => {
      const services = await Promise.all(names.map((name) => findService(lab.admin, name)));
      return services.every((service) => addressesOf(service).length > 0);
    },
    60_000,
  );
  return { host, log };
}

const balancers = (lab: SandboxLab): readonly string[] =>
  lab.azure.simulator
    .resources()
    .flatMap(({ id }) => /\/loadBalancers\/([^/]+)$/u.exec(id)?.[1] ?? [])
    .toSorted();

const commandIn = (text: string): RegExpExecArray | null =>
  /kubectl annotate lease --namespace=kube-system cloud-controller-manager --overwrite (\S+)=([0-9a-f]{12})/u.exec(
    text,
  );

async function confirm(lab: SandboxLab, text: string): Promise<void> {
  const [, annotation = "", hash = ""] = commandIn(text) ?? [];
  const lease = { namespace: "kube-system", name: "cloud-controller-manager" };
  // Beside one that was confirmed before.
  const annotations = { [annotation]: `0123456789ab, ${hash}` };
  await lab.admin.patch(kinds.Lease, lease, "merge", { metadata: { annotations } });
}

const planOf = (lab: SandboxLab) => runCommand("plan", lab.flags(controllers));

describe("a reload that places resources elsewhere", () => {
  test("is refused with what it would remove, and carried out once that is confirmed", async () => {
    await using lab = await SandboxLab.open();
    const { host, log } = await balanced(lab, 2);
    await appendFile(lab.azure.config, "loadBalancerName: other\n");
    const refusal = (): string => log.find((line) => line.includes("Reload refused")) ?? "";
    await eventually("it is refused", () => Promise.resolve(refusal() !== ""));
    expect(refusal()).toContain("frontends a");
    expect(refusal()).toContain("of load balancer kubernetes");
    expect(refusal()).toContain("(changed keys: loadBalancerName)");
    expect(host.status.lastRefusal?.reason).toContain("would remove what no Service asks to remove");
    const events = await lab.admin.list(kinds.Event, { namespace: "kube-system" });
    expect(events.map(({ reason, message }) => `${reason} ${message}`)).toContainEqual(
      expect.stringMatching(/^ReloadRefused .*kubectl annotate lease/u),
    );
    expect(host.status).toMatchObject({ generation: 1, running: true });
    expect(balancers(lab)).toEqual(["kubernetes"]);

    // The hash of a plan is for a start: it says which one a reload needs.
    const { stdout } = await planOf(lab);
    const [planned, refused] = [stdout, refusal()].map((text) => commandIn(text)?.[2]);
    expect(planned).toMatch(/^[0-9a-f]{12}$/u);
    expect(planned).not.toBe(refused);
    expect(stdout).toMatch(/use that one for a reload\.\nIt is in the event ReloadRefused and in lastRefusal of/u);
    await confirm(lab, refusal());
    await eventually("the Services have moved", () => Promise.resolve(balancers(lab).join() === "other"), 30_000);
    expect(host.status.lastRefusal).toBeUndefined();
  });

  test("is refused when nothing of the Services is there", async () => {
    await using lab = await SandboxLab.open();
    const { host } = await balanced(lab, 1);
    await appendFile(lab.azure.config, "loadBalancerResourceGroup: elsewhere\n");
    await eventually("it is refused", () => Promise.resolve(host.status.lastRefusal !== undefined));
    expect(host.status.lastRefusal?.reason).toContain("of Service default/web0 of resource group elsewhere");
    expect(host.status.generation).toBe(1);
  });

  test("is carried out when no changed key places a resource", async () => {
    await using lab = await SandboxLab.open();
    const { host } = await balanced(lab, 1);
    lab.azure.simulator.clearLog();
    await appendFile(lab.azure.config, "nsgCacheTTLInSeconds: 77\ntags: team=net\n");
    await eventually("the next generation runs", () => Promise.resolve(host.status.generation === 2));
    expect(host.status.lastRefusal).toBeUndefined();
    expect(balancers(lab)).toEqual(["kubernetes"]);
    const ofNext = async (): Promise<readonly string[]> =>
      (await readFile(auditLog(lab), "utf8"))
        .split("\n")
        .filter((line) => /"generation":2,.*"system":"cloud"/u.test(line));
    await eventually("the tags are written", async () => (await ofNext()).length > 0);
    const keys = '"causes":["config key nsgCacheTTLInSeconds","config key tags"';
    expect((await ofNext()).filter((line) => !line.includes(keys))).toEqual([]);
  });
});

describe("a restart with a config that places resources elsewhere", () => {
  test("is planned as held, and holds until exactly this is confirmed", async () => {
    await using lab = await SandboxLab.open();
    const { host } = await balanced(lab, 12);
    host.stop();
    await host.finished;
    await writeFile(lab.azure.config, `${lab.azure.configText}loadBalancerName: other\n`);

    const plan = await planOf(lab);
    expect(plan.status).toBe(2);
    expect(plan.stdout).toContain("! held load balancer kubernetes\n");
    expect(plan.stdout).toContain("12 of 12 frontends");
    expect(plan.stdout).toContain("    ! would remove frontends: a");
    expect(plan.stdout).toMatch(/removals held\n$/u);
    expect(commandIn(plan.stdout)).not.toBeNull();

    const next = await lab.host(controllers);
    const warnings = (): string => next.host.status.warnings.join("\n");
    await eventually("all is held", () => Promise.resolve(warnings().includes("12 of 12 frontends")), 60_000);
    expect(balancers(lab)).toEqual(["kubernetes"]);
    const events = await lab.admin.list(kinds.Event, { namespace: "default" });
    expect(events.map(({ reason }) => reason)).toContain("RemovalHeld");

    await confirm(lab, warnings());
    await eventually("the Services have moved", () => Promise.resolve(balancers(lab).join() === "other"), 80_000);
  });
});
