import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { appendFile, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";

import { Value } from "@sinclair/typebox/value";
import { kinds } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { readBundle } from "../../../host/bundle/bundle.ts";
import { planSchema } from "../../../host/changes/plan-schema.ts";
import { openSandbox } from "../../../host/sandbox-host.ts";
import { joinNodes } from "../../kit/azure.ts";
import { type Printed, runCommand } from "../../kit/plan.ts";
import { addressesOf, balancedService, findService } from "../../kit/services.ts";
import { SandboxLab } from "../sandbox-lab.ts";

setDefaultTimeout(120_000);

const controllers = "--controllers=cloud-node-controller,service-lb-controller";
const explainWeb = ["service", "default/corp-web"];
const canary = "c4n4ry";

/** A cluster with a node and a Service that a host has served, another one that none serves yet, and secrets. */
async function openLab(): Promise<SandboxLab> {
  const lab = await SandboxLab.open();
  await joinNodes(lab.admin, lab.azure, 1, (node) => ({
    ...node,
    metadata: { ...node.metadata, annotations: { "corp.example/join-token": canary, password: canary } },
  }));
  const host = lab.start({ flags: [controllers] });
  await host.until("it runs", ({ running }) => running);
  await lab.admin.create(kinds.Service, balancedService("corp-web", { loadBalancerSourceRanges: ["52.10.0.0/16"] }));
  await eventually(
    "the Service has an address",
    async () => addressesOf(await findService(lab.admin, "corp-web")).length > 0,
    60_000,
  );
  expect(await host.stop()).toBe(0);
  const lastApplied = "kubectl.kubernetes.io/last-applied-configuration";
  const annotations = { [lastApplied]: `{"note":"${canary}"}`, "corp.example/key": canary };
  const { metadata, ...other } = balancedService("corp-new");
  await lab.admin.create(kinds.Service, { ...other, metadata: { ...metadata, annotations } });
  await lab.admin.create(kinds.Secret, { metadata: { namespace: "default", name: "s" }, stringData: { key: canary } });
  await appendFile(lab.azure.config, `aadClientCertPassword: ${canary}\nunknownToken: ${canary}\n`);
  return lab;
}

let folder = "";
let bundle = "";
let anonymous = "";
let secrets: readonly string[] = [];
let live: Record<"explained" | "json" | "text", Printed>;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "from-bundle-"));
  [bundle, anonymous] = [join(folder, "cluster.bundle"), join(folder, "anonymous.bundle")];
  await using lab = await openLab();
  const flags = lab.flags([controllers]);
  live = {
    text: await runCommand("plan", [`--bundle=${bundle}`, ...flags]),
    json: await runCommand("plan", ["--output=json", `--bundle=${anonymous}`, "--anonymize", ...flags]),
    explained: await runCommand("explain", [...explainWeb, ...flags]),
  };
  const [, secret = "-"] = /aadClientSecret"?: "?([0-9a-f-]{36})/u.exec(lab.azure.configText) ?? [];
  secrets = [canary, secret, lab.api.tokens.of("admin"), lab.azure.folder];
}, 120_000);
afterAll(() => rm(folder, { recursive: true, force: true }));

const content = async (path: string): Promise<string> => gunzipSync(await Bun.file(path).bytes()).toString();

/** What a plan changes, without the names. */
const shapeOf = ({ stdout }: Printed): readonly unknown[] =>
  Value.Parse(planSchema, JSON.parse(stdout))
    .changes.map(({ action, title, reasons, fields }) => ({
      action,
      title: title
        .split(" ")
        .slice(0, title.includes("/") ? 1 : 2)
        .join(" "),
      reasons: reasons.length,
      fields: fields.map(({ path }) => path.replaceAll(/\[[^\]]*\]/gu, "[]")).toSorted(),
    }))
    .map((change) => JSON.stringify(change))
    .toSorted();

describe("a bundle", () => {
  test("gives the same plan offline", async () => {
    expect({ ...live.text, stdout: "" }).toEqual({ status: 2, stdout: "", stderr: "" });
    expect(live.text.stdout).toContain("because of Service default/corp-new");
    expect(await runCommand("plan", [`--from=${bundle}`])).toEqual(live.text);
  });

  test("gives the same explanation offline, but for events, which no plan reads", async () => {
    const withoutEvents = ({ stdout }: Printed): string => stdout.replaceAll(/^ {2}event .*\n/gmu, "");
    const explained = await runCommand("explain", [...explainWeb, `--from=${bundle}`]);
    expect(explained.status).toBe(0);
    const squeezed = (text: string): string => text.replaceAll(/ +/gu, " ");
    expect(squeezed(withoutEvents(explained))).toBe(squeezed(withoutEvents(live.explained)));
  });

  test("contains no secret of the cluster, the cloud config or the command line", async () => {
    for (const path of [bundle, anonymous])
      for (const secret of secrets) expect(await content(path)).not.toContain(secret);
    expect(await content(bundle)).toContain("corp-web");
  });

  test("gives the same plan up to names when it is anonymized, and contains no name", async () => {
    expect(await content(anonymous)).not.toMatch(/corp|vmss0|nsg0|\brg0|20\.0\.0\.1|52\.10\./iu);
    const planned = await runCommand("plan", ["--output=json", `--from=${anonymous}`]);
    expect({ ...planned, stdout: "" }).toEqual({ ...live.json, stdout: "" });
    expect(shapeOf(planned)).toEqual(shapeOf(live.json));
    const explained = await runCommand("explain", [...explainWeb, `--from=${anonymous}`]);
    expect(explained.stdout).toMatch(
      /does not exist \(there are \S+\/\S+, .*\): check .* an anonymized one has other names\n$/u,
    );
  });

  test("opens as a sandbox, whose host does what was planned; then there is nothing to do", async () => {
    await using sandbox = await openSandbox({ bundle: await readBundle(bundle), environment: {} });
    expect(sandbox.nodeNames).toEqual(["vmss0000000"]);
    const flags = [controllers, `--kubeconfig=${sandbox.files.kubeconfig}`, `--cloud-config=${sandbox.cloudConfig}`];
    await eventually(
      "the host has served the new Service",
      async () => (await runCommand("plan", flags)).stdout === "No changes.\n",
      90_000,
    );
    const services = sandbox.api.list(kinds.Service).filter(({ spec }) => spec?.type === "LoadBalancer");
    expect(services.map(addressesOf).every(({ length }) => length === 1)).toBe(true);
  });

  test("is refused with what is wrong, in visible characters and also by explain, and options that contradict each other at once", async () => {
    const cut = join(folder, "cut");
    await writeFile(cut, (await Bun.file(bundle).bytes()).subarray(0, 500));
    for (const argv of [["plan"], ["explain", ...explainWeb]]) {
      const [name = "", ...rest] = argv;
      const { status, stderr } = await runCommand(name, [...rest, `--from=${cut}`]);
      expect(status).toBe(1);
      expect(stderr).toContain(`${cut}: it is truncated or damaged`);
    }
    const written = await readBundle(bundle);
    const escape = "\u001B]0;title\u0007";
    for (const change of [
      { cloudProvider: escape },
      { flags: [`--controllers=${escape}`] },
      { kinds: written.kinds.map((kind) => ({ ...kind, objects: [{ metadata: { name: escape } }] })) },
    ]) {
      await writeFile(cut, JSON.stringify({ ...written, ...change }));
      const hostile = await runCommand("plan", [`--from=${cut}`]);
      expect([hostile.status, hostile.stderr.includes("\\u{001b}]0;title"), hostile.stderr.includes("\u001B")]).toEqual(
        [1, true, false],
      );
    }
    const { stderr } = await runCommand("plan", ["--anonymize", "--from=", "--output=xml"]);
    for (const problem of ["--anonymize: needs --bundle=FILE", "--from: name a file", "--output=xml"])
      expect(stderr).toContain(problem);
  });
});
