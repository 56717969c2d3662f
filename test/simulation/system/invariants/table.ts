/** What holds in every world, whatever happens in it: the name of each invariant, and why it matters. */
export const invariants = {
  "one writer":
    "A host writes only while the Lease of its deployment names it: two writers would undo each other's work.",
  "no write after the fence": "A host whose renewals stopped writes nothing: another one may lead by then.",
  "no generation writes after a newer one":
    "Once a newer generation runs, the former ones of its process write nothing: each would undo what the other does.",
  continuity: "A Service that no user changed keeps its address, its rules and its healthy members.",
  "others' property":
    "What others have written stays: rules, routes, tags, frontends, and the Services of another controller.",
  "no removal without a cause":
    "The product removes only what a change of a Service, a node or a VM explains: anything else is an outage.",
  "no running VM loses its node": "A node is deleted only after its VM is.",
  "one CIDR, one node": "No two nodes have the same Pod CIDR, and no node gets another one.",
  "no request storm": "Requests per minute stay within a bound, however much fails, and within a lower one at rest.",
  "visible failures":
    "What fails for minutes shows in an event at its object or in `/statusz`: operators repair only what they see.",
  "no unhandled error": "Nothing is thrown where no code catches it.",
  "eventually stable": "When faults end, every Service, node and route is as its user wants within a bounded time.",
  "then silent": "A stable cluster causes no write.",
  "plans nothing": "A process that starts in a stable cluster writes nothing.",
  "equal to a fresh build": "What a history leaves is what a process builds from nothing for the same wishes.",
} as const;

export type InvariantName = keyof typeof invariants;

export interface Violation {
  readonly invariant: InvariantName;
  readonly text: string;
}

export type Violate = (invariant: InvariantName, detail: string) => void;
