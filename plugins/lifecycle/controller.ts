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
        const deleteMissing = async (): Promise<void> => {
          forgetOthers(missing, nodes.store.list());
          await survey.ask(deletable(missing), signal, async (node) => {
            missing.delete(uidOf(node));
            await deleteIfGone({ context, instances, signal }, node);
          });
        };
        await repeat({ clock, signal, periodMs: options.periodMs }, async () => {
          // What was answered too late for the last pass comes first: asked about anew, a node could not be deleted
          // meanwhile, and never at all where the cloud always takes longer than a period.
          await deleteMissing();
          await survey.ask(nodes.store.list(), signal, async (node) => {
            const verdict = await checkNode({ context, instances, signal }, node);
            if (verdict === "missing") missing.add(uidOf(node));
            else missing.delete(uidOf(node));
          });
          await deleteMissing();
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
