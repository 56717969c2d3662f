import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { defineKind, kinds, type KubeObject, labelOf, labels } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { openSandbox, type Sandbox } from "../../../host/sandbox-host.ts";
import { printChanges } from "../../../host/sandbox/watch-output.ts";

setDefaultTimeout(120_000);

interface Price extends KubeObject {
  readonly spec?: { readonly amount: number };
  readonly status?: { readonly seen: number };
}
const row = { group: "pricing.example.com", version: "v1", kind: "Price", plural: "prices", namespaced: false };
const prices = defineKind<Price>(row);

/** A controller over a custom kind, which writes the status and needs the given verbs on `prices/status`. */
const source = (verbs: readonly string[], reads: readonly string[]): string => `
import { defineController, defineKind, keyOf } from "cloud-controller-host/sdk";
const prices = defineKind(${JSON.stringify(row)});
export default defineController({
  name: "price-controller",
  kinds: [prices],
  permissions: [
    { apiGroup: "pricing.example.com", resources: ["prices"], verbs: ${JSON.stringify(reads)} },
    { apiGroup: "pricing.example.com", resources: ["prices/status"], verbs: ${JSON.stringify(verbs)} },
  ],
  construct: () => (context) => {
    const queue = context.workqueue("prices");
    const informer = context.informers.of(prices);
    informer.handle({ added: (price) => queue.add(keyOf(price)) });
    const sync = async (name) => {
      const amount = informer.store.get(name)?.spec?.amount;
      await context.client.patch(prices, { name }, "merge", { status: { seen: amount } }, { subresource: "status" });
    };
    return { run: (signal) => queue.process({ workers: 1, signal, sync }) };
  },
});
`;

let folder = "";
beforeAll(async () => void (folder = await mkdtemp(join(tmpdir(), "sandbox-declared-"))));
afterAll(() => rm(folder, { recursive: true, force: true }));

async function writePlugin(
  home: string,
  verbs: readonly string[],
  reads: readonly string[] = ["list", "watch"],
): Promise<void> {
  await mkdir(join(home, "price-controller"), { recursive: true });
  await writeFile(join(home, "price-controller/plugin.ts"), source(verbs, reads));
}

const open = (home: string): Promise<Sandbox> =>
  openSandbox({
    nodes: 0,
    flags: [`--plugin-dir=${home}`, "--controllers=price-controller", "--secure-port=0"],
  });

const logOf = (sandbox: Sandbox): Promise<string> => Bun.file(sandbox.files.log).text();

describe("the sandbox", () => {
  test("serves the kinds that a plugin declares, and lets it do what its permissions name", async () => {
    const home = join(folder, "granted");
    await writePlugin(home, ["patch"]);
    await using sandbox = await open(home);
    sandbox.api.create(prices, { metadata: { name: "node" }, spec: { amount: 7 } });
    await eventually("it works", () => sandbox.api.get(prices, { name: "node" })?.status?.seen === 7, 30_000);
  });

  test("refuses what the permissions do not name as a cluster would, prints it once, and takes a correction on reload", async () => {
    const home = join(folder, "refused");
    await writePlugin(home, ["ptach"]);
    await using sandbox = await open(home);
    const lines: string[] = [];
    using _ = printChanges(sandbox, (line) => void lines.push(line));
    sandbox.api.create(prices, { metadata: { name: "node" }, spec: { amount: 7 } });
    const denial = "price-controller may not patch prices/status: its permissions do not declare it";
    await eventually("it is refused", () => lines.includes(denial), 30_000);
    expect(
      await eventually("it is logged", async () => {
        const log = await logOf(sandbox);
        return log.includes("cannot patch resource") && log;
      }),
    ).toContain("ptach (did you mean patch?)");
    expect(sandbox.api.get(prices, { name: "node" })?.status).toBeUndefined();

    await writePlugin(home, ["patch"]);
    sandbox.host.reload("test");
    await eventually("it works", () => sandbox.api.get(prices, { name: "node" })?.status?.seen === 7, 30_000);
    expect(lines.filter((line) => line === denial)).toHaveLength(1);
  });

  test("says of an informer that no plugin has its permission, since all plugins share the informers", async () => {
    const home = join(folder, "unlisted");
    await writePlugin(home, ["patch"], ["get"]);
    const lines: string[] = [];
    await using sandbox = await open(home);
    using _ = printChanges(sandbox, (line) => void lines.push(line));
    const denial = "The informers may not list prices: no plugin's permissions declare it";
    await eventually("it is printed", () => lines.includes(denial), 30_000);
  });

  test("grants our own controllers no more than they declare, and they need no more", async () => {
    await using sandbox = await openSandbox({ nodes: 1, flags: ["--secure-port=0"] });
    const name = sandbox.nodeNames[0] ?? "";
    await eventually(
      "the node is initialized",
      () => labelOf(sandbox.api.get(kinds.Node, { name }) ?? {}, labels.zone) !== undefined,
      30_000,
    );
    const web = { name: "web", namespace: "default" };
    sandbox.api.create(kinds.Service, { metadata: web, spec: { type: "LoadBalancer", ports: [{ port: 80 }] } });
    await eventually(
      "the Service is served",
      () => sandbox.api.get(kinds.Service, web)?.status?.loadBalancer?.ingress !== undefined,
      30_000,
    );
    await sandbox.cloud?.removeInstance(name);
    expect(sandbox.api.requests.list({ status: 403 })).toEqual([]);
  });
});
