import { expect, test } from "bun:test";

import {
  type InformerHandler,
  keyOf,
  type KindRef,
  kinds,
  type KubeObject,
  type Node,
} from "cloud-controller-host/sdk";

import type { ProcessInformers } from "../../../host/generation/scope/scope.ts";
import { objectOf } from "../../../host/kube/connection/wire.ts";
import { plannedInformers } from "../../../host/plan/planned-informers.ts";
import { WrittenObjects } from "../../../host/plan/written-objects.ts";

const node = (stage: string): Node => ({ metadata: { name: "vm", resourceVersion: "1", labels: { stage } } });

/** Watches of one node, which deliver it with `bring`. */
function lateWatch() {
  const brings: (() => void)[] = [];
  const of = <T extends KubeObject>(kind: KindRef<T>) => {
    const items = [objectOf(kind, node("old"))];
    return {
      store: { get: (key: string) => items.find((item) => keyOf(item) === key), list: () => items, size: 1 },
      hasSynced: () => true,
      handle(handler: InformerHandler<T>) {
        brings.push(() => items.forEach((item) => handler.added?.(item)));
        return { remove: () => undefined };
      },
    };
  };
  const share = {
    of,
    synced: () => Promise.resolve(),
    refreshed: () => Promise.resolve(),
    stale: () => [],
    unsynced: [],
    release: () => undefined,
  };
  const informers: ProcessInformers = {
    share: () => share,
    relist: () => undefined,
    showWrites: () => Promise.resolve(),
  };
  return { informers, bring: () => brings.forEach((each) => each()) };
}

test("a handler that has received a write does not get the object again from its watch", async () => {
  const written = new WrittenObjects();
  const { informers, bring } = lateWatch();
  const nodes = plannedInformers(informers, written).share().of(kinds.Node);
  const seen: string[] = [];
  const handler = (name: string) => ({
    added: ({ metadata }: Node) => void seen.push(`${name} added ${metadata?.labels?.["stage"]}`),
    updated: (_: Node, { metadata }: Node) => void seen.push(`${name} updated ${metadata?.labels?.["stage"]}`),
  });
  nodes.handle(handler("early"));
  written.set(kinds.Node, node("old"), node("new"));
  await Promise.resolve();
  nodes.handle(handler("late"));
  bring();
  expect(seen).toEqual(["early updated new", "late added new"]);
});
