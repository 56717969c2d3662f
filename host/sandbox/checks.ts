import { appendFile } from "node:fs/promises";

import { type Clock, isUninitialized, kinds, labelOf, labels, type Lease, type Node } from "cloud-controller-host/sdk";

import type { Sandbox } from "./open.ts";

/** A condition that the sandbox waits for, after an optional action. */
export interface SandboxCheck {
  readonly name: string;
  begin?(): Promise<void>;
  /** Details for the user once the condition holds; undefined before. */
  result(): string | undefined;
}

export const startChecks = (sandbox: Sandbox): readonly SandboxCheck[] => [
  leaseHeld(sandbox),
  ...(sandbox.cloud === undefined ? [] : [nodesInitialized(sandbox)]),
];

/** The checks of `--check`. A cloud config of the user's own is not changed. */
export const allChecks = (sandbox: Sandbox): readonly SandboxCheck[] => [
  ...startChecks(sandbox),
  ...(sandbox.cloudConfig === sandbox.files.cloudConfig ? [configSwapped(sandbox)] : []),
];

export interface ChecksOptions {
  readonly print: (line: string) => void;
  readonly clock: Clock;
  readonly timeoutMs: number;
  readonly hint: string;
  /** Once it aborts, nothing more is checked. */
  readonly signal?: AbortSignal;
}

/** Runs the checks in order and prints a line for each. Resolves to false when one did not hold within `timeoutMs`. */
export async function runChecks(
  checks: readonly SandboxCheck[],
  { print, clock, timeoutMs, hint, signal }: ChecksOptions,
): Promise<boolean> {
  let passed = true;
  for (const check of checks) {
    const started = clock.monotonic();
    await check.begin?.();
    const isOver = (): boolean => signal?.aborted === true || clock.monotonic() - started >= timeoutMs;
    let result = check.result();
    while (result === undefined && !isOver()) {
      await clock.sleep(5);
      result = check.result();
    }
    if (result === undefined && signal?.aborted) return false;
    const took = `${Math.round(clock.monotonic() - started)} ms`.padStart(9);
    print(
      result === undefined
        ? `  ✗ ${took}  ${check.name}: not within ${timeoutMs / 1000} s${hint}`
        : `  ✓ ${took}  ${check.name}: ${result}`,
    );
    passed &&= result !== undefined;
  }
  return passed;
}

/**
 * Each controller whose `run` has failed since the start, with its latest error. It may run again: a rollback, or another
 * attempt, hides a failure from the checks.
 */
export function failedControllers({ api }: Sandbox): ReadonlyMap<string, string> {
  return new Map(
    api
      .list(kinds.Event)
      .filter(({ reason }) => reason === "ControllerFailed")
      .map(({ message = "" }) => [message.split(" ", 1)[0] ?? "", message]),
  );
}

/** A drain that waits for controllers, or the latest one that has given up on them; undefined when each one returned in time. */
export function unfinishedDrain({ waitingFor, lastOverdueDrain }: DrainStatus): string | undefined {
  return waitingFor.length > 0
    ? `Waiting for ${waitingFor.join(", ")} to return; no controller runs meanwhile`
    : lastOverdueDrain?.reason;
}
type DrainStatus = Pick<Sandbox["host"]["status"], "waitingFor" | "lastOverdueDrain">;

/** Waits until no work fails any more, for a limited time. */
export async function workSucceeds(
  { failingWork }: Pick<Sandbox, "failingWork">,
  { clock, timeoutMs }: { readonly clock: Clock; readonly timeoutMs: number },
): Promise<void> {
  const started = clock.monotonic();
  while (!failingWork.isEmpty && clock.monotonic() - started < timeoutMs) await clock.sleep(5);
}

const leaseOf = ({ api }: Sandbox): Lease | undefined =>
  api.get(kinds.Lease, { namespace: "kube-system", name: "cloud-controller-manager" });

const leaseHeld = (sandbox: Sandbox): SandboxCheck => ({
  name: "lease held",
  result() {
    const { leading, identity } = sandbox.host.status;
    return leading && leaseOf(sandbox)?.spec?.holderIdentity === identity ? `by ${identity}` : undefined;
  },
});

const isInitialized = (node: Node): boolean =>
  !isUninitialized(node) &&
  (node.spec?.providerID ?? "") !== "" &&
  labelOf(node, labels.zone) !== undefined &&
  (node.status?.addresses?.some(({ type }) => type === "InternalIP") ?? false);

function nodesInitialized(sandbox: Sandbox): SandboxCheck {
  const wanted = sandbox.nodeNames.length;
  return {
    name: `${wanted} of ${wanted} nodes initialized`,
    result() {
      const done = sandbox.api.list(kinds.Node).filter(isInitialized).length;
      return done >= wanted ? "with providerID, zone and addresses" : undefined;
    },
  };
}

function configSwapped(sandbox: Sandbox): SandboxCheck {
  let generation = 0;
  let before: Lease["spec"];
  return {
    name: "changed config swapped in",
    async begin() {
      generation = sandbox.host.status.generation;
      before = leaseOf(sandbox)?.spec;
      sandbox.api.requests.reset();
      await appendFile(sandbox.files.cloudConfig, "# changed by the check\n");
    },
    result() {
      const { generation: now, running } = sandbox.host.status;
      if (now <= generation || !running) return undefined;
      const after = leaseOf(sandbox)?.spec;
      const same =
        after?.holderIdentity === before?.holderIdentity &&
        after?.leaseTransitions === before?.leaseTransitions &&
        after?.acquireTime === before?.acquireTime;
      const lists = sandbox.api.requests.count({ verb: "list" });
      return same && lists === 0 ? `generation ${now}, same lease, no transition, no LIST` : undefined;
    },
  };
}
