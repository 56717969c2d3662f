import { appendFile } from "node:fs/promises";

import { isUninitialized, kinds, labelOf, labels, type Lease, type Node } from "cloud-controller-host/sdk";

import type { Sandbox } from "./open.ts";

/** Something that the sandbox keeps its word on: done once, then looked at until it holds. */
export interface SandboxPromise {
  /** What is waited for, for a person. */
  readonly name: string;
  begin?(): Promise<void>;
  /** How it was kept, or undefined while it is not. */
  kept(): string | undefined;
}

/** What `--check` waits for, in order. */
export function promisesOf(sandbox: Sandbox): readonly SandboxPromise[] {
  return [leaseHeld(sandbox), nodesInitialised(sandbox), configSwapped(sandbox)];
}

const leaseOf = ({ api }: Sandbox): Lease | undefined =>
  api.get(kinds.Lease, { namespace: "kube-system", name: "cloud-controller-manager" });

function leaseHeld(sandbox: Sandbox): SandboxPromise {
  return {
    name: "lease held",
    kept() {
      const { leading, identity } = sandbox.host.status;
      return leading && leaseOf(sandbox)?.spec?.holderIdentity === identity ? `by ${identity}` : undefined;
    },
  };
}

const isInitialised = (node: Node): boolean =>
  !isUninitialized(node) &&
  (node.spec?.providerID ?? "") !== "" &&
  labelOf(node, labels.zone) !== undefined &&
  (node.status?.addresses?.some(({ type }) => type === "InternalIP") ?? false);

function nodesInitialised(sandbox: Sandbox): SandboxPromise {
  const wanted = sandbox.nodeNames.length;
  return {
    name: `${wanted} of ${wanted} nodes initialised`,
    kept() {
      const done = sandbox.api.list(kinds.Node).filter(isInitialised).length;
      return done >= wanted ? "with providerID, zone and addresses" : undefined;
    },
  };
}

function configSwapped(sandbox: Sandbox): SandboxPromise {
  let generation = 0;
  let before: Lease["spec"];
  return {
    name: "changed config swapped in",
    async begin() {
      generation = sandbox.host.status.generation;
      before = leaseOf(sandbox)?.spec;
      sandbox.api.requests.reset();
      await appendFile(sandbox.cloudConfig, "# changed by the check\n");
    },
    kept() {
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
