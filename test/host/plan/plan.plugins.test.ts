import { expect, setDefaultTimeout, test } from "bun:test";

import { kinds } from "cloud-controller-host/sdk";

import { planDocumentOf } from "../../kit/plan.ts";
import { SandboxLab } from "../sandbox-lab.ts";

setDefaultTimeout(120_000);

const controller = (name: string, body: string): string => `
  import { defineController, isAlreadyExists, kinds } from "cloud-controller-host/sdk";
  const untilAborted = (signal) => new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
  export default defineController({
    name: "${name}-controller",
    permissions: [],
    construct: () => ({ client, clock, informers }) => {
      const [nodes, maps] = [informers.of(kinds.Node), informers.of(kinds.ConfigMap)];
      return { async run(signal) { ${body}; await untilAborted(signal); } };
    },
  });
`;

/** What these plugins would change, with the paths of the fields. */
async function changesOf(lab: SandboxLab, bodies: Readonly<Record<string, string>>): Promise<readonly unknown[]> {
  const flags = new Set<string>();
  for (const [name, body] of Object.entries(bodies)) flags.add(await lab.plugin(name, controller(name, body)));
  const names = Object.keys(bodies).map((name) => `${name}-controller`);
  const { changes, failures } = await planDocumentOf(lab.flags([`--controllers=${names.join(",")}`, ...flags]));
  expect(failures).toEqual([]);
  return changes.map(({ action, title, fields }) => {
    const paths = fields.map(({ path }) => path).filter((path) => !/^metadata\.name(?:space)?$/u.test(path));
    return [action, title, paths.join(" ")];
  });
}

test("a controller that begins to watch after another has written sees what the plan has written, as from a watch", async () => {
  await using lab = await SandboxLab.open();
  lab.api.create(kinds.Node, { metadata: { name: "one" } });
  lab.api.create(kinds.Node, { metadata: { name: "two" } });
  const early = `
    await client.patch(kinds.Node, { name: "one" }, "merge", { metadata: { labels: { stage: "x" } } });
    await client.delete(kinds.Node, { name: "two" });
    await client.create(kinds.ConfigMap, { metadata: { namespace: "default", name: "fresh" } });
  `;
  const late = `
    const fresh = () => client.get(kinds.ConfigMap, { namespace: "default", name: "fresh" }).catch(() => undefined);
    while ((await fresh()) === undefined) await Bun.sleep(20);
    const note = (object, data) =>
      client.create(kinds.ConfigMap, { metadata: { namespace: "default", name: "saw-" + object.metadata.name }, data });
    nodes.handle({ added: (node) => void note(node, node.metadata.labels ?? {}) });
    maps.handle({ added: (map) => map.metadata.name === "fresh" && void note(map) });
    maps.handle({ added: () => void note({ metadata: { name: "removed" } }) }).remove();
  `;
  expect(await changesOf(lab, { early, late })).toEqual([
    ["create", "ConfigMap default/fresh", ""],
    ["create", "ConfigMap default/saw-fresh", ""],
    ["create", "ConfigMap default/saw-one", "data.stage"],
    ["change", "Node one", "metadata.labels.stage"],
    ["delete", "Node two", ""],
  ]);
});

test("a handler that is registered before a write gets each change of a plan once", async () => {
  await using lab = await SandboxLab.open();
  lab.api.create(kinds.Node, { metadata: { name: "one" } });
  const early = `
    let count = 0;
    const noted = (how) => () =>
      void client.create(kinds.ConfigMap, { metadata: { namespace: "default", name: how + "-" + ++count } });
    nodes.handle({ added: noted("added"), updated: noted("updated") });
  `;
  const late = `
    await client.list(kinds.Node);
    await client.patch(kinds.Node, { name: "one" }, "merge", { metadata: { labels: { stage: "x" } } });
  `;
  expect(await changesOf(lab, { early, late })).toEqual([
    ["create", "ConfigMap default/added-1", ""],
    ["create", "ConfigMap default/updated-2", ""],
    ["change", "Node one", "metadata.labels.stage"],
  ]);
});

test("a plan does not create what exists: watched, only read, or created by the plan itself", async () => {
  await using lab = await SandboxLab.open();
  for (const kind of [kinds.ConfigMap, kinds.Secret])
    lab.api.create(kind, { metadata: { namespace: "default", name: "own" } });
  const ensuring = `
    const ensure = (kind, name, data) =>
      client.create(kind, { metadata: { namespace: "default", name }, data }).catch((error) => {
        if (!isAlreadyExists(error)) throw error;
      });
    await ensure(kinds.ConfigMap, "own");
    await ensure(kinds.Secret, "own");
    await ensure(kinds.ConfigMap, "another", { first: "1" });
    await ensure(kinds.ConfigMap, "another", { second: "2" });
    await client.delete(kinds.Secret, { namespace: "default", name: "own" });
    await ensure(kinds.Secret, "own", { key: "eA==" });
  `;
  expect(await changesOf(lab, { ensuring })).toEqual([
    ["create", "ConfigMap default/another", "data.first"],
    ["change", "Secret default/own", "data.key type"],
  ]);
});

test("a list of a plan shows what the plan has created, changed and deleted, so that a loop comes to an end", async () => {
  await using lab = await SandboxLab.open();
  for (const name of ["stale", "moved", "kept", "elsewhere"]) {
    const metadata = { namespace: name === "elsewhere" ? "kube-system" : "default", name, labels: { stage: name } };
    lab.api.create(kinds.ConfigMap, { metadata });
  }
  const looping = `
    const list = async (stage, more = {}) =>
      (await client.list(kinds.ConfigMap, { namespace: "default", labelSelector: "stage=" + stage, ...more })).map(
        ({ metadata }) => metadata.name,
      );
    const create = (name, stage) =>
      client.create(kinds.ConfigMap, { metadata: { namespace: "default", name, labels: { stage } } });
    await client.patch(kinds.ConfigMap, { namespace: "default", name: "kept" }, "merge", { data: { key: "value" } });
    for (let period = 0; !signal.aborted; period++) {
      if ((await list("new")).length === 0) await create("own", "new");
      for (const name of await list("stale")) await client.delete(kinds.ConfigMap, { namespace: "default", name });
      for (const name of await list("moved"))
        await client.patch(kinds.ConfigMap, { namespace: "default", name }, "merge", { metadata: { labels: { stage: "new" } } });
      if (period === 1) {
        const seen = [await list("new"), await list("new", { namespace: "kube-system" })];
        const named = await list("kept", { fieldSelector: "metadata.name=kept" });
        const none = await list("new", { fieldSelector: "metadata.name=none" });
        await create("seen-" + [...seen.flat().toSorted(), ...named, ...none].join("-"), "seen");
      }
      await clock.sleep(60_000, signal);
    }
  `;
  expect(await changesOf(lab, { looping })).toEqual([
    ["change", "ConfigMap default/kept", "data.key"],
    ["change", "ConfigMap default/moved", "metadata.labels.stage"],
    ["create", "ConfigMap default/own", "metadata.labels.stage"],
    ["create", "ConfigMap default/seen-moved-own-kept", "metadata.labels.stage"],
    ["delete", "ConfigMap default/stale", ""],
  ]);
});

test("a plan is complete although work for every replica fails, as beside a host that listens on the same port", async () => {
  await using lab = await SandboxLab.open();
  const serving = Bun.serve({ port: 0, fetch: () => new Response() });
  try {
    const listening = `await client.create(kinds.ConfigMap, { metadata: { namespace: "default", name: "own" } })`;
    const source = controller("listening", listening).replace(
      "async run(signal)",
      `async everyReplica(signal) {
         const server = Bun.serve({ port: ${serving.port}, reusePort: false, fetch: () => new Response() });
         await untilAborted(signal);
         server.stop(true);
       },
       async run(signal)`,
    );
    const flag = await lab.plugin("listening", source);
    const { changes, failures } = await planDocumentOf(lab.flags(["--controllers=listening-controller", flag]));
    expect(failures).toEqual([]);
    expect(changes.map(({ title }) => title)).toEqual(["ConfigMap default/own"]);
  } finally {
    await serving.stop(true);
  }
});

test("a plan continues without a plugin that cannot be loaded or initialized, as a host does, and lists it", async () => {
  await using lab = await SandboxLab.open();
  const working = controller(
    "working",
    `await client.create(kinds.ConfigMap, { metadata: { namespace: "default", name: "own" } })`,
  );
  const failing = controller("failing", "").replace("const [nodes", 'throw new Error("no luck"); const [nodes');
  await lab.plugin("working", working);
  const flag = await lab.plugin("failing", failing);
  const chosen = "--controllers=working-controller,failing-controller";
  const strict = lab.flags([chosen, flag, "--plugin-failure-policy=exit"]);
  await expect(planDocumentOf(strict)).rejects.toThrow("cannot be initialized: no luck");
  await lab.plugin("broken", "export default {");
  const { changes, skippedControllers, failures, complete } = await planDocumentOf(lab.flags([chosen, flag]));
  expect(changes.map(({ title }) => title)).toEqual(["ConfigMap default/own"]);
  const reason = 'controller "failing-controller" cannot be initialized: no luck';
  expect(skippedControllers).toEqual([
    `failing-controller: ${reason}`,
    expect.stringMatching(/^\/\S+\/broken: plugin \S+\/broken\/plugin\.ts cannot be imported: /u),
  ]);
  expect({ complete, failures }).toEqual({
    complete: false,
    failures: [`Plugin refused; continuing without it: ${reason}`],
  });
});

const unwatchingCloud = `
  import { defineCloud, Type } from "cloud-controller-host/sdk";
  export default defineCloud({
    name: "unwatching",
    configSchema: Type.Object({}),
    decode: () => ({ ok: true, value: {}, warnings: [] }),
    create: async () => ({ name: "unwatching", hasClusterID: true, instances: {}, [Symbol.asyncDispose]: async () => {} }),
  });
`;

test("no plan is made without a controller of the host's own that cannot be initialized", async () => {
  await using lab = await SandboxLab.open();
  lab.api.faults.add({ match: { verb: /^(list|watch)$/u, resource: "nodes" }, effect: "hang", times: 1_000 });
  const flag = await lab.plugin("unwatching", unwatchingCloud);
  const limits = ["--plugin-init-timeout=1s", "--plan-timeout=10"];
  const planning = planDocumentOf(lab.flags([flag, "--cloud-provider=unwatching", ...limits]));
  await expect(planning).rejects.toThrow('controller "cloud-node-controller": nodes did not sync within 1 s');
});
