import type { WarningKind } from "cloud-controller-host/sdk";

import type { runbook } from "./runbook.ts";
import type { Problem } from "./schema.ts";

interface Explained extends Pick<Problem, "title" | "advice"> {
  readonly runbook: keyof typeof runbook;
  readonly view: string;
}

/** The kind of what the Service's own condition shows too, where it could be written. */
export const aboutService = "ServicesFail" satisfies WarningKind;

/** The kind of what a node's state shows too, without the error. */
export const aboutNode = "NodesFail" satisfies WarningKind;

/** Warnings of controllers and of the cloud that have a remedy of their own. */
export const warningKinds: Readonly<Record<Exclude<WarningKind, typeof aboutService | typeof aboutNode>, Explained>> = {
  RemovalsHeld: {
    title: "Removals are held",
    advice: "Nothing of it is removed yet. Compare it with the plan: confirm it if it is intended.",
    runbook: "CloudRemovalsHeld",
    view: "plan",
  },
  NodeDeletionsHeld: {
    title: "Deletions of nodes are held",
    advice: "Do the instances still exist? Then the cloud config or its identity lists too few.",
    runbook: "CloudNodeDeletionsHeld",
    view: "nodes",
  },
  AllocationSuspended: {
    title: "Pod CIDR allocation is suspended",
    advice: "Only one allocator may run: turn the other one off.",
    runbook: "CloudPodCIDRAllocationSuspended",
    view: "nodes?sort=cidrs",
  },
  RequestsThrottled: {
    title: "Requests to the cloud are throttled",
    advice: "They are sent again when the cloud allows it. Find the client that uses up the limit.",
    runbook: "CloudControllerHostThrottled",
    view: "cloud",
  },
  RequestsFail: {
    title: "Requests to the cloud fail",
    advice: "They are sent again. Check the network to the cloud, and the state of its service.",
    runbook: "FailedRequests",
    view: "cloud",
  },
};
