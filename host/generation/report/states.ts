/**
 * The life of the one slot in which generations run, as a table. `transition` is pure; `slot.ts` carries out the
 * effects. Nothing else decides whether a generation may start, write or end.
 */
export type Phase =
  "standby" | "preparing" | "running" | "draining" | "fenced" | "recovering" | "disabled" | "stopping" | "stopped";

/** The next step after a phase: run a candidate, run nothing, run what ran before, or end. */
export type Goal = "run" | "disable" | "recover" | "end";

export interface SlotState {
  readonly phase: Phase;
  readonly goal: Goal;
  /** A prepared generation waits for its turn. */
  readonly candidate: boolean;
}

export type EventName =
  | "leading"
  | "prepared"
  | "disable"
  | "cachesReady"
  | "cachesStale"
  | "lockWon"
  | "failed"
  | "proven"
  | "drained"
  | "settled"
  | "recovered"
  | "recoveryFailed"
  | "stop"
  | "lost";

/** Actions of the driver, in this order. Asynchronous ones report back with the event in parentheses. */
export type Effect =
  /** Takes the event's generation as the candidate; an earlier candidate is disposed of. */
  | "adopt"
  /** Disposes of the candidate. */
  | "discard"
  /** Begins first lists again that were sent before the lease was free, for the generation that is being prepared. */
  | "relist"
  /** Waits until the candidate's caches are as fresh as the lease (`cachesReady`, `cachesStale`). */
  | "refresh"
  /** Makes the candidate the active generation, opens its fences and starts its controllers. */
  | "start"
  /** Starts what belongs to the lock that was won, once the caches are as fresh as that (`cachesStale`). */
  | "startLock"
  /** Notes what runs as what to return to. */
  | "remember"
  /** Releases what was kept to return to. */
  | "forget"
  /** Asks every controller to return and waits for it, within the limit (`drained`). */
  | "drain"
  /** Closes the fences of the active generation for good and cuts off its writes in flight. */
  | "fence"
  /** Waits until the caches show what this process has written (`settled`). */
  | "settle"
  /** Disposes of the generation that has been fenced. */
  | "retire"
  /** Prepares the generation to return to (`recovered`, `recoveryFailed`). */
  | "recover"
  /** Ends that preparation. */
  | "abandon"
  /** Reports that the cloud provider is disabled. */
  | "disabled"
  /** Reports what is left and ends the work under the lease. */
  | "end";

interface Change {
  readonly to: Phase;
  readonly goal?: Goal;
  readonly candidate?: boolean;
  readonly effects: readonly Effect[];
}

export interface Row extends Change {
  readonly from: Phase;
  readonly on: EventName;
  /** If one event has several rows, the first whose condition is true applies. */
  readonly when?: keyof typeof conditions;
}

const conditions = {
  "a candidate waits": (state: SlotState) => state.candidate,
  "to be disabled": (state: SlotState) => state.goal === "disable",
  "to recover": (state: SlotState) => state.goal === "recover",
  "to end": (state: SlotState) => state.goal === "end",
} as const;

const held = { goal: "run", candidate: true } as const;
const none = { goal: "run", candidate: false } as const;
const endNow = { to: "stopped", goal: "end", candidate: false } as const;

export const rows: readonly Row[] = [
  { from: "standby", on: "prepared", to: "standby", ...held, effects: ["adopt"] },
  {
    from: "standby",
    on: "disable",
    to: "standby",
    goal: "disable",
    candidate: false,
    effects: ["discard", "disabled"],
  },
  { from: "standby", on: "leading", when: "to be disabled", to: "disabled", ...none, effects: [] },
  { from: "standby", on: "leading", when: "a candidate waits", to: "preparing", effects: ["refresh"] },
  { from: "standby", on: "leading", to: "preparing", effects: ["relist"] },
  { from: "standby", on: "stop", ...endNow, effects: ["discard", "end"] },

  { from: "preparing", on: "prepared", to: "preparing", ...held, effects: ["adopt", "refresh"] },
  { from: "preparing", on: "cachesReady", when: "a candidate waits", to: "running", ...none, effects: ["start"] },
  { from: "preparing", on: "cachesStale", ...endNow, effects: ["discard", "end"] },
  { from: "preparing", on: "disable", to: "disabled", ...none, effects: ["discard", "disabled"] },
  { from: "preparing", on: "stop", ...endNow, effects: ["discard", "end"] },
  { from: "preparing", on: "lost", ...endNow, effects: ["discard", "end"] },

  { from: "running", on: "lockWon", to: "running", effects: ["startLock"] },
  { from: "running", on: "prepared", to: "draining", ...held, effects: ["adopt", "remember", "drain"] },
  { from: "running", on: "disable", to: "draining", goal: "disable", effects: ["remember", "drain"] },
  { from: "running", on: "proven", to: "running", effects: ["forget"] },
  { from: "running", on: "failed", to: "draining", goal: "recover", effects: ["drain"] },
  { from: "running", on: "cachesStale", to: "stopping", goal: "end", effects: ["drain"] },
  { from: "running", on: "stop", to: "stopping", goal: "end", effects: ["drain"] },
  { from: "running", on: "lost", to: "fenced", goal: "end", effects: ["fence", "drain"] },

  { from: "draining", on: "drained", to: "fenced", effects: ["fence", "settle"] },
  { from: "draining", on: "prepared", to: "draining", ...held, effects: ["adopt"] },
  { from: "draining", on: "disable", to: "draining", goal: "disable", candidate: false, effects: ["discard"] },
  { from: "draining", on: "stop", to: "stopping", goal: "end", candidate: false, effects: ["discard"] },
  { from: "draining", on: "lost", to: "fenced", goal: "end", candidate: false, effects: ["fence", "discard"] },

  { from: "fenced", on: "drained", when: "to end", ...endNow, effects: ["retire", "end"] },
  { from: "fenced", on: "settled", when: "a candidate waits", to: "running", ...none, effects: ["start", "retire"] },
  { from: "fenced", on: "settled", when: "to be disabled", to: "disabled", ...none, effects: ["retire", "disabled"] },
  { from: "fenced", on: "settled", when: "to recover", to: "recovering", effects: ["retire", "recover"] },
  { from: "fenced", on: "prepared", when: "to end", to: "fenced", effects: [] },
  { from: "fenced", on: "prepared", to: "fenced", ...held, effects: ["adopt"] },
  { from: "fenced", on: "disable", when: "to end", to: "fenced", effects: [] },
  { from: "fenced", on: "disable", to: "fenced", goal: "disable", candidate: false, effects: ["discard"] },
  { from: "fenced", on: "stop", when: "to end", to: "fenced", effects: [] },
  { from: "fenced", on: "stop", ...endNow, effects: ["discard", "retire", "end"] },
  { from: "fenced", on: "lost", when: "to end", to: "fenced", effects: [] },
  { from: "fenced", on: "lost", ...endNow, effects: ["discard", "retire", "end"] },

  { from: "recovering", on: "recovered", to: "running", ...none, effects: ["adopt", "start", "forget"] },
  { from: "recovering", on: "recoveryFailed", ...endNow, effects: ["end"] },
  { from: "recovering", on: "prepared", to: "running", ...none, effects: ["abandon", "adopt", "start"] },
  { from: "recovering", on: "disable", to: "disabled", ...none, effects: ["abandon", "disabled"] },
  { from: "recovering", on: "stop", ...endNow, effects: ["abandon", "end"] },
  { from: "recovering", on: "lost", ...endNow, effects: ["abandon", "end"] },

  { from: "disabled", on: "prepared", to: "preparing", ...held, effects: ["adopt", "refresh"] },
  { from: "disabled", on: "disable", to: "disabled", effects: ["disabled"] },
  { from: "disabled", on: "stop", ...endNow, effects: ["end"] },
  { from: "disabled", on: "lost", ...endNow, effects: ["end"] },

  { from: "stopping", on: "drained", ...endNow, effects: ["fence", "retire", "end"] },
  { from: "stopping", on: "lost", to: "fenced", goal: "end", effects: ["fence"] },
];

export const initialState: SlotState = { phase: "standby", goal: "run", candidate: false };

/**
 * The next state and what to do. An event without a row changes nothing; a generation that no row adopts is disposed
 * of by the driver.
 */
export function transition(
  state: SlotState,
  event: EventName,
): { readonly state: SlotState; readonly effects: readonly Effect[] } {
  const row = rows.find(
    ({ from, on, when }) => from === state.phase && on === event && (when === undefined || conditions[when](state)),
  );
  if (row === undefined) return { state, effects: [] };
  const { to: phase, goal = state.goal, candidate = state.candidate, effects } = row;
  return { state: { phase, goal, candidate }, effects };
}
