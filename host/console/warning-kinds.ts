import type { runbook } from "./runbook.ts";
import type { Problem } from "./schema.ts";

export interface WarningKind extends Pick<Problem, "title" | "advice"> {
  /** Of the text, without the name of the controller. */
  readonly pattern: RegExp;
  readonly runbook: keyof typeof runbook;
  readonly view: string;
}

/** Warnings of controllers and of the cloud that have a remedy of their own; the first that fits applies. */
export const warningKinds: readonly WarningKind[] = [
  {
    pattern: /^removals are held since /u,
    title: "Removals are held",
    advice: "Nothing of it is removed yet. Compare it with the plan: confirm it if it is intended.",
    runbook: "CloudRemovalsHeld",
    view: "plan",
  },
  {
    pattern: /^deletions of nodes are held since /u,
    title: "Deletions of nodes are held",
    advice: "Do the instances still exist? Then the cloud config or its identity lists too few.",
    runbook: "CloudNodeDeletionsHeld",
    view: "nodes",
  },
  {
    pattern: /^Pod CIDR allocation is suspended: /u,
    title: "Pod CIDR allocation is suspended",
    advice: "Only one allocator may run: turn the other one off.",
    runbook: "CloudPodCIDRAllocationSuspended",
    view: "nodes?sort=cidrs",
  },
  {
    pattern: / fails since .*throttl/u,
    title: "Requests to the cloud are throttled",
    advice: "They are sent again when the cloud allows it. Find the client that uses up the limit.",
    runbook: "CloudControllerHostThrottled",
    view: "cloud",
  },
  {
    pattern: / fails since \S+, \d+ attempts?: /u,
    title: "Requests to the cloud fail",
    advice: "They are sent again. Check the network to the cloud, and the state of its service.",
    runbook: "FailedRequests",
    view: "cloud",
  },
];

export const kindOfWarning = (line: string): WarningKind | undefined =>
  isAboutServices(line) ? undefined : warningKinds.find(({ pattern }) => pattern.test(textOfWarning(line)));

/** Without the name of the controller. */
export const textOfWarning = (line: string): string => line.slice(line.indexOf(": ") + 2);

/** Warnings of service-lb about Services, which are troubles of their own. */
const aboutServices = /^[^:]+: (?:failing Services: |Service \S+ fails since |and \d+ more$)/u;

export const isAboutServices = (line: string): boolean => aboutServices.test(line);
