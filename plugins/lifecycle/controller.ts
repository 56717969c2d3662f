import {
  type Controller,
  type ControllerContext,
  type Instances,
  kinds,
  type Node,
  readyStatus,
  repeat,
} from "cloud-controller-host/sdk";

import { Brake } from "./brake.ts";
import { deleteIfGone, isInGrace } from "./deletion.ts";
import { checkNode } from "./node-check.ts";
import type { LifecycleOptions } from "./options.ts";
import { Survey } from "./survey.ts";

/** Looks at all nodes every period until its signal aborts: first asks about each, then deletes what may be deleted. */
export function lifecycleController(
  context: ControllerContext,
  instances: Instances,
  options: LifecycleOptions,
): Controller {
  const { clock } = context;
  const nodes = context.informers.of(kinds.Node);
  const brake = new Brake(context, options);

  return {
    async run(signal) {
      const survey = new Survey({ clock, concurrency: options.concurrentChecks, patienceMs: options.periodMs });
      /** UIDs of nodes of which the cloud said last that it does not know their machine. */
      const missing = new Set<string>();
      try {
        await repeat({ clock, signal, periodMs: options.periodMs }, async () => {
          await survey.ask(nodes.store.list(), signal, async (node) => {
            const verdict = await checkNode({ context, instances, signal }, node);
            if (verdict === "missing") missing.add(uidOf(node));
            else missing.delete(uidOf(node));
          });
          forgetOthers(missing, nodes.store.list());
          await survey.ask(deletable(missing), signal, (node) => deleteIfGone({ context, instances, signal }, node));
        });
      } finally {
        await survey.end();
      }
    },
    check: () => brake.check(),
  };

  function deletable(missing: ReadonlySet<string>): readonly Node[] {
    const all = nodes.store.list();
    const now = clock.now();
    const ripe = all.filter(
      (node) => missing.has(uidOf(node)) && readyStatus(node) !== "True" && !isInGrace(node, now, options),
    );
    return brake.release(ripe, all.length);
  }
}

const uidOf = (node: Node): string => node.metadata?.uid ?? "";

function forgetOthers(uids: Set<string>, nodes: readonly Node[]): void {
  const present = new Set(nodes.map(uidOf));
  for (const uid of uids) if (!present.has(uid)) uids.delete(uid);
}
