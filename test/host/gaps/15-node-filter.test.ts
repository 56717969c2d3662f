import { expect, setDefaultTimeout, test } from "bun:test";

import { isUninitialized, kinds } from "cloud-controller-host/sdk";

import { joinNodes } from "../../kit/azure.ts";
import { SandboxLab } from "../sandbox-lab.ts";

setDefaultTimeout(120_000);

const watcher = `
  import { defineController, kinds, keyOf } from "cloud-controller-host/sdk";
  export default defineController({
    name: "watching-controller",
    construct: () => (context) => {
      for (const kind of [kinds.Node, kinds.Service, kinds.EndpointSlice])
        context.informers.of(kind).handle({ added: (object) => context.log.info("seen " + kind.kind + " " + keyOf(object)) });
      return { run: (signal) => new Promise((done) => signal.addEventListener("abort", () => done(), { once: true })) };
    },
  });`;

test("--node-filter-requirements filters out nodes that do not match, and nothing else", async () => {
  await using lab = await SandboxLab.open();
  const pool = (value: string) => ({ labels: { pool: value } });
  const join = async (value: string): Promise<string> => {
    const [name = ""] = await joinNodes(lab.admin, lab.azure, 1, (node) => ({
      ...node,
      metadata: { ...node.metadata, ...pool(value) },
    }));
    return name;
  };
  const [ours, theirs] = [await join("ours"), await join("theirs")];
  lab.api.create(kinds.Service, {
    metadata: { namespace: "default", name: "without-the-label" },
    spec: { type: "LoadBalancer", ports: [{ port: 80 }] },
  });
  lab.api.create(kinds.EndpointSlice, {
    metadata: { namespace: "default", name: "slice-without-the-label" },
    addressType: "IPv4",
    endpoints: [],
  });
  const host = lab.start({
    flags: [
      await lab.plugin("watching", watcher),
      "--controllers=cloud-node,watching-controller",
      "--node-filter-requirements=pool=ours",
    ],
  });
  const isInitialised = (name: string): boolean => {
    const node = lab.api.get(kinds.Node, { name });
    return node !== undefined && !isUninitialized(node);
  };
  await host.eventually("the node that matches is initialized", () => isInitialised(ours));
  for (const what of [
    `Node ${ours}`,
    "Service default/without-the-label",
    "EndpointSlice default/slice-without-the-label",
  ])
    await host.eventually(`${what} is seen`, () => host.lines(`seen ${what}`).length === 1);
  expect(host.lines(`seen Node ${theirs}`)).toEqual([]);
  expect(isInitialised(theirs)).toBeFalse();
  const narrowed = lab.api.requests.list({ path: /labelSelector=pool/ });
  expect(new Set(narrowed.map(({ resource }) => resource))).toEqual(new Set(["nodes"]));
});

/** upstream: `TestNodeFilterRequirements{Include,Exclude,Mix}Condition` of the Azure provider. */
test.each([
  ["includes", "pool=ours", ["ours in east", "ours in west"]],
  ["excludes", "pool!=ours", ["theirs in east", "theirs in west"]],
  ["does both", "pool=ours,zone!=east", ["ours in west"]],
])("a requirement that %s selects the nodes that it describes", async (_, selector, expected) => {
  await using lab = await SandboxLab.open();
  const pools = [
    ["ours", "east"],
    ["ours", "west"],
    ["theirs", "east"],
    ["theirs", "west"],
  ] as const;
  for (const [pool, zone] of pools)
    lab.api.create(kinds.Node, { metadata: { name: `${pool}-${zone}`, labels: { pool, zone } } });
  const host = lab.start({
    flags: [
      await lab.plugin("watching", watcher),
      "--controllers=watching-controller",
      `--node-filter-requirements=${selector}`,
    ],
  });
  await host.until("it runs", ({ running }) => running);
  const wanted = expected.map((node) => node.replace(" in ", "-"));
  const seen = (): readonly string[] =>
    host.lines("seen Node ").map((line) => /seen Node ([a-z-]+)/.exec(line)?.[1] ?? "");
  await host.eventually("the nodes are seen", () => seen().length >= wanted.length);
  expect(new Set(seen())).toEqual(new Set(wanted));
});
