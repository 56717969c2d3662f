import {
  type Controller,
  type ControllerContext,
  FailingObjects,
  type Instances,
  isBeingDeleted,
  keyOf,
  kinds,
  type Node,
  readyStatus,
  repeat,
} from "cloud-controller-host/sdk";

import { ConcurrentChecks } from "./concurrent-checks.ts";
import { DeletionGuard, uidOf } from "./deletion-guard.ts";
import { deleteIfGone, isInGrace } from "./deletion.ts";
import { checkNode } from "./node-check.ts";
import { NodesToCheck } from "./nodes-to-check.ts";
import type { LifecycleOptions } from "./options.ts";
import { UnreadyNodes } from "./unready-nodes.ts";

/** A shorter failure is only logged: the next pass may succeed. */
const failureGraceMs = 60_000;

/** Checks all nodes every period until its signal aborts, and deletes those that are missing from the cloud. */
export function lifecycleController(
  context: ControllerContext,
  instances: Instances,
  options: LifecycleOptions,
): Controller {
  const { clock } = context;
  const nodes = context.informers.of(kinds.Node);
  const toCheck = new NodesToCheck(nodes);
  const guard = new DeletionGuard(context, options);
  /** Apart from each other: a check that succeeds says nothing of the deletion that follows. */
  const checksThatFail = new FailingObjects("NodesFail", clock, failureGraceMs);
  const deletionsThatFail = new FailingObjects("NodesFail", clock, failureGraceMs);
  /** The cloud's last answer about nodes that are not ready, by UID. */
  const verdicts = new Map<string, "exists" | "missing" | "unknown">();
  const unready = new UnreadyNodes(clock);

  /** Missing nodes that may be deleted; a node that has become ready again needs a new verdict. */
  function deletable(): readonly Node[] {
    // The deletion of a terminating node has been requested; its finalizers wait for another controller.
    const notReady = toCheck.list().filter((node) => readyStatus(node) !== "True" && !isBeingDeleted(node));
    const relevant = new Set(notReady.map(uidOf));
    for (const uid of verdicts.keys()) if (!relevant.has(uid)) verdicts.delete(uid);
    unready.keepOnly(relevant);
    const now = clock.now();
    const old = notReady.filter((node) => !isInGrace(node, now, options, unready.lastingMs(uidOf(node))));
    return guard.release({
      missing: old.filter((node) => verdicts.get(uidOf(node)) === "missing"),
      unanswered: old.map(uidOf).filter((uid) => !verdicts.has(uid)),
      all: nodes.store.list(),
    });
  }

  return {
    async run(signal) {
      const checks = new ConcurrentChecks({
        clock,
        concurrency: options.concurrentChecks,
        timeoutMs: options.periodMs,
      });
      const deleteMissing = (): Promise<void> =>
        checks.run(deletable(), signal, async (node) => {
          verdicts.delete(uidOf(node));
          await guard.track(node, () => deleteIfGone({ context, instances, failing: deletionsThatFail, signal }, node));
        });
      try {
        await repeat({ clock, signal, periodMs: options.periodMs }, async () => {
          unready.beginPass();
          // Answers that came too late for the last pass come first: checked again before that, a node would never be
          // deleted where the cloud always takes longer than a period.
          if (verdicts.size > 0) await deleteMissing();
          const unchecked = await toCheck.ofPass(signal);
          const names = new Set(unchecked.map(keyOf));
          for (const failing of [checksThatFail, deletionsThatFail]) failing.keepOnly(names);
          // An answer of an earlier pass proves nothing while the cloud begins to report instances as missing.
          for (const node of unchecked) if (verdicts.get(uidOf(node)) !== "missing") verdicts.delete(uidOf(node));
          await checks.run(unchecked, signal, async (node) => {
            // No cache keeps a node whose instance is missing already.
            const nextRead = () => (verdicts.get(uidOf(node)) === "missing" ? {} : unready.nextRead(uidOf(node)));
            const verdict = await checkNode({ context, instances, failing: checksThatFail, nextRead, signal }, node);
            if (verdict === "ready" || verdict === "exists") deletionsThatFail.ended(keyOf(node));
            if (verdict === "ready") verdicts.delete(uidOf(node));
            else verdicts.set(uidOf(node), verdict);
          });
          await deleteMissing();
        });
      } finally {
        toCheck.release();
        await checks.drain();
      }
    },
    warnings: () => [...guard.warnings, ...checksThatFail.warnings, ...deletionsThatFail.warnings],
  };
}
