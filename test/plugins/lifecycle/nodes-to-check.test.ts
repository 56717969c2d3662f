import { expect, test } from "bun:test";

import type { Informer, InformerHandler, Node } from "cloud-controller-host/sdk";

import { NodesToCheck } from "../../../plugins/lifecycle/nodes-to-check.ts";
import { aNode, type NodeFacts } from "./scene.ts";

/** A watch of nodes whose changes are in the store at once, and are delivered by `deliver`. */
class LateWatch implements Informer<Node> {
  readonly #nodes = new Map<string, Node>();
  readonly #late: (() => void)[] = [];
  #handler: InformerHandler<Node> | undefined;
  lookups = 0;
  readonly store = {
    get: (key: string) => {
      this.lookups += 1;
      return this.#nodes.get(key);
    },
    list: () => [...this.#nodes.values()],
    size: 0,
  };

  hasSynced(): boolean {
    return true;
  }

  handle(handler: InformerHandler<Node>): { remove(): void } {
    this.#handler = handler;
    return { remove: () => (this.#handler = undefined) };
  }

  set(name: string, ready: NodeFacts["ready"]): void {
    const before = this.#nodes.get(name);
    const node = aNode(name, { ready });
    this.#nodes.set(name, node);
    this.#late.push(() => (before ? this.#handler?.updated?.(before, node) : this.#handler?.added?.(node)));
  }

  remove(name: string): void {
    const node = this.#nodes.get(name);
    this.#nodes.delete(name);
    if (node !== undefined) this.#late.push(() => this.#handler?.deleted?.(node));
  }

  deliver(): void {
    for (const change of this.#late.splice(0)) change();
  }
}

const never = new AbortController().signal;
const namesIn = (toCheck: NodesToCheck): readonly (string | undefined)[] =>
  toCheck.list().map(({ metadata }) => metadata?.name);

test("nodes that become unready, ready again and deleted are followed by what the watch delivers", () => {
  const watch = new LateWatch();
  const toCheck = new NodesToCheck(watch);
  watch.set("a", "True");
  watch.set("b", "False");
  watch.deliver();
  expect(namesIn(toCheck)).toEqual(["b"]);
  watch.set("a", "Unknown");
  watch.set("b", "True");
  watch.deliver();
  expect(namesIn(toCheck)).toEqual(["a"]);
  watch.set("b", "False");
  watch.remove("a");
  watch.deliver();
  expect(namesIn(toCheck)).toEqual(["b"]);
});

test("all nodes that need a check are found before any of them is delivered", async () => {
  const watch = new LateWatch();
  const toCheck = new NodesToCheck(watch);
  watch.set("a", "True");
  watch.set("b", "False");
  expect(namesIn(toCheck)).toEqual([]);
  expect((await toCheck.ofPass(never)).map(({ metadata }) => metadata?.name)).toEqual(["b"]);
  expect(namesIn(toCheck)).toEqual(["b"]);
});

test("only the first pass looks at all nodes", async () => {
  const watch = new LateWatch();
  const toCheck = new NodesToCheck(watch);
  watch.set("a", "True");
  await toCheck.ofPass(never);
  watch.set("b", "False");
  expect(await toCheck.ofPass(never)).toEqual([]);
});

test("the store decides about a node whose last change has not been delivered", () => {
  const watch = new LateWatch();
  const toCheck = new NodesToCheck(watch);
  watch.set("a", "False");
  watch.set("b", "False");
  watch.deliver();
  watch.set("a", "True");
  watch.remove("b");
  expect(namesIn(toCheck)).toEqual([]);
  watch.deliver();
  expect(namesIn(toCheck)).toEqual([]);
  expect(watch.lookups).toBe(2);
});

test("a node that becomes unready while all nodes are looked at keeps its place", async () => {
  const watch = new LateWatch();
  const toCheck = new NodesToCheck(watch);
  for (let index = 0; index < 3; index++) watch.set(`n${index}`, "True");
  watch.deliver();
  const finding = toCheck.ofPass(never);
  watch.set("n2", "False");
  watch.deliver();
  await finding;
  expect(namesIn(toCheck)).toEqual(["n2"]);
});

test("a look at very many nodes leaves turns of the event loop to others", async () => {
  const watch = new LateWatch();
  const toCheck = new NodesToCheck(watch);
  for (let index = 0; index < 60_000; index++) watch.set(`n${index}`, "True");
  let [turns, over] = [0, false];
  const count = (): void => {
    turns += 1;
    if (!over) setImmediate(count);
  };
  setImmediate(count);
  await toCheck.ofPass(never);
  over = true;
  expect(turns).toBeGreaterThan(1);
});

test("a controller that has ended no longer follows the watch", () => {
  const watch = new LateWatch();
  const toCheck = new NodesToCheck(watch);
  toCheck.release();
  watch.set("a", "False");
  watch.deliver();
  expect(namesIn(toCheck)).toEqual([]);
});
