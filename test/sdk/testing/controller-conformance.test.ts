import { afterAll, describe, expect, test } from "bun:test";

import {
  type Controller,
  type ControllerContext,
  type ControllerSpec,
  defineController,
  forEachConcurrently,
  type Instances,
  keyOf,
  kinds,
  skipped,
  type TObject,
  Type,
} from "cloud-controller-host/sdk";
import { ConformanceError, controllerConformance } from "cloud-controller-host/sdk/testing";

import { controllerHarness } from "../../../host/sandbox/testing/harness.ts";
import { describeController } from "../../kit/conformance.ts";

interface Parts {
  readonly context: ControllerContext;
  readonly instances: Instances;
}
type Behavior = (parts: Parts) => Controller;

/** A controller that labels every node of which the cloud knows a machine, or one that differs from it. */
function plugin(behavior: Behavior, spec: Partial<ControllerSpec<TObject>> = {}) {
  return defineController({
    name: "label-controller",
    permissions: [{ apiGroup: "", resources: ["nodes"], verbs: ["list", "watch", "patch"] }],
    construct: (_init, _config, cloud) => (context) =>
      cloud.instances === undefined ? skipped("no instances") : behavior({ context, instances: cloud.instances }),
    ...spec,
  });
}

const label = { metadata: { labels: { "example.com/known": "true" } } };

async function labelAll({ context, instances }: Parts, signal: AbortSignal): Promise<void> {
  const nodes = context.informers.of(kinds.Node).store.list();
  await forEachConcurrently({ workers: 2, signal }, nodes, async (node) => {
    if (node.metadata?.labels?.["example.com/known"] === "true") return;
    if (await instances.instanceExists(node)) await write(context, keyOf(node)).catch(() => undefined);
  });
}
const write = (context: ControllerContext, name: string): Promise<unknown> =>
  context.client.patch(kinds.Node, { name }, "merge", label);

const good: Behavior = (parts) => {
  parts.context.informers.of(kinds.Node);
  return {
    async run(signal) {
      while (!signal.aborted) {
        await labelAll(parts, signal);
        await parts.context.clock.sleep(5, signal);
      }
    },
  };
};

describeController(plugin(good));

/** Labels what there is, again and again; `failed` says what happens after a rejected write. */
async function labelOnce({ context }: Parts, signal: AbortSignal, failed: () => Promise<unknown>): Promise<void> {
  const nodes = context.informers.of(kinds.Node);
  while (!signal.aborted) {
    for (const node of nodes.store.list()) await write(context, keyOf(node)).catch(failed);
    await context.clock.sleep(5, signal);
  }
}

/** Labels every node once in its life, whatever it looks like. */
function labelsEachOnce({ context }: Parts): Controller {
  const nodes = context.informers.of(kinds.Node);
  return {
    async run(signal) {
      const labeled = new Set<string>();
      while (!signal.aborted) {
        for (const node of nodes.store.list().filter((one) => !labeled.has(keyOf(one)))) {
          labeled.add(keyOf(node));
          await write(context, keyOf(node));
        }
        await context.clock.sleep(5, signal);
      }
    },
  };
}

/** Takes a node for done before it is, and remembers that beyond its generation. */
const forgetful =
  (done: Set<string>): Behavior =>
  ({ context, instances }) => {
    const nodes = context.informers.of(kinds.Node);
    return {
      async run(signal) {
        while (!signal.aborted) {
          for (const node of nodes.store.list().filter(({ metadata }) => !done.has(metadata?.uid ?? ""))) {
            done.add(node.metadata?.uid ?? "");
            if ((await instances.instanceExists(node)) && !signal.aborted) await write(context, keyOf(node));
          }
          await context.clock.sleep(5, signal);
        }
      },
    };
  };

describe("the suite finds a controller that", () => {
  const forever = new AbortController().signal;
  const intervals: ReturnType<typeof setInterval>[] = [];
  afterAll(() => {
    for (const interval of intervals) clearInterval(interval);
  });
  const broken: Readonly<Record<string, readonly [promise: string, ReturnType<typeof plugin>]>> = {
    "has an invalid alias": [
      "declares name, client name and permissions",
      plugin(good, { aliases: ["Label_Controller"] }),
    ],
    "requests wildcard permissions": [
      "declares name, client name and permissions",
      plugin(good, { permissions: [{ apiGroup: "", resources: ["*"], verbs: ["get"] }] }),
    ],
    "accepts unknown options": [
      "accepts its options and rejects unknown ones",
      plugin(good, { configSchema: Type.Object({ size: Type.Integer({ default: 1 }) }) }),
    ],
    "calls the cloud in init": [
      "init writes nothing, calls no cloud and starts no timer",
      plugin((parts) => {
        void parts.instances.instanceExists({ metadata: { name: "n" } });
        return good(parts);
      }),
    ],
    "returns nothing from init": [
      "runs until its signal aborts, and its check passes meanwhile",
      plugin(good, { construct: () => () => JSON.parse("null") }),
    ],
    "returns from run before its signal aborts": [
      "runs until its signal aborts, and its check passes meanwhile",
      plugin(() => ({ run: async () => undefined })),
    ],
    "reports itself unhealthy": [
      "runs until its signal aborts, and its check passes meanwhile",
      plugin((parts) => ({
        ...good(parts),
        check() {
          throw new Error("unwell");
        },
      })),
    ],
    "ignores its signal": [
      "run resolves without writing when its signal is already aborted",
      plugin((parts) => ({ run: (signal) => labelAll(parts, signal).then(() => new Promise<void>(() => {})) })),
    ],
    "leaves a sleep behind": [
      "drains in time and leaves no timer behind",
      plugin((parts) => ({
        async run(signal) {
          void parts.context.clock.sleep(2000, forever);
          await good(parts).run(signal);
        },
      })),
    ],
    "leaves a timer behind": [
      "drains in time and leaves no timer behind",
      plugin((parts) => ({
        async run(signal) {
          await parts.context.clock.sleep(1, signal);
          setTimeout(() => undefined, 2000).unref();
          await good(parts).run(signal);
        },
      })),
    ],
    "leaves an interval behind that an informer handler started": [
      "drains in time and leaves no timer behind",
      plugin((parts) => {
        const nodes = parts.context.informers.of(kinds.Node);
        nodes.handle({ added: () => void intervals.push(setInterval(() => undefined, 2000)) });
        return good(parts);
      }),
    ],
    "ends when a write fails": [
      "drains in time while all its writes fail",
      plugin((parts) => ({ run: (signal) => labelOnce(parts, signal, () => Promise.reject(new Error("failed"))) })),
    ],
    "sleeps through its backoff after its signal aborts": [
      "drains in time while all its writes fail",
      plugin((parts) => ({ run: (signal) => labelOnce(parts, signal, () => parts.context.clock.sleep(30_000)) })),
    ],
    "loses work in flight on a reload": [
      "a reload while it reads from the cloud loses no write and repeats none",
      plugin(forgetful(new Set())),
    ],
    "repeats finished writes after a reload": [
      "a reload while it writes to the API server loses no write and repeats none",
      plugin((parts) => labelsEachOnce(parts)),
    ],
    "resolves while a cloud call is in flight": [
      "run resolves only after its calls in flight have ended",
      plugin((parts) => {
        parts.context.informers.of(kinds.Node);
        return {
          async run(signal) {
            const ended = Promise.withResolvers<void>();
            signal.addEventListener("abort", () => ended.resolve(), { once: true });
            await Promise.race([good(parts).run(signal), ended.promise]);
          },
        };
      }),
    ],
    "writes after it has stopped": [
      "writes nothing after run has resolved",
      plugin((parts) => {
        const nodes = parts.context.informers.of(kinds.Node);
        nodes.handle({ added: (node) => void write(parts.context, keyOf(node)) });
        return { run: (signal) => good(parts).run(signal) };
      }),
    ],
    "writes values that are already set": [
      "the next generation writes nothing where nothing has changed, and handles new work",
      plugin((parts) => labelsEachOnce(parts)),
    ],
    "uses permissions that it has not declared": [
      "declares every permission that it uses",
      plugin(good, { permissions: [{ apiGroup: "", resources: ["nodes"], verbs: ["list", "watch"] }] }),
    ],
  };
  for (const [name, [promise, bad]] of Object.entries(broken))
    test(name, async () => {
      const suite = controllerConformance(bad, controllerHarness(), { limitMs: 1000 });
      const found = suite.find((one) => one.name === promise);
      const reason: unknown = await found?.run().then(
        () => "nothing found",
        (error: unknown) => error,
      );
      expect(reason instanceof ConformanceError || String(reason).includes("unwell") ? "found" : reason).toBe("found");
    });
});
