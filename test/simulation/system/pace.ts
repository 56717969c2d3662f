import { randomOf } from "../timeline.ts";

/** Flags of leader election, in virtual milliseconds. */
export interface LeaseTimings {
  readonly durationMs: number;
  readonly renewDeadlineMs: number;
  readonly retryPeriodMs: number;
}

/** Renewals and reads of the Lease are nine requests of ten: longer timings make histories several times cheaper. */
export const leases = {
  /** The flags' defaults. */
  default: { durationMs: 15_000, renewDeadlineMs: 10_000, retryPeriodMs: 2_000 },
  /** Where the API server is far away or busy. */
  relaxed: { durationMs: 60_000, renewDeadlineMs: 40_000, retryPeriodMs: 5_000 },
  /** Those of OpenShift, which survive a minute without API server. */
  slow: { durationMs: 137_000, renewDeadlineMs: 107_000, retryPeriodMs: 26_000 },
} as const satisfies Readonly<Record<string, LeaseTimings>>;

/** How long the parts of a history take, in virtual milliseconds. */
export interface Pace {
  readonly lease: keyof typeof leases;
  /** Actions begin and faults last until then. */
  readonly eventfulMs: number;
  /** Time without a write, once all is stable. */
  readonly silentMs: number;
  /** How long all may take to be well when faults end; default: 45 minutes, in which whatever has failed often is tried again. */
  readonly convergeMs?: number;
}

const minuteMs = 60_000;

/** The longest of each. The period of the product's rarest work, the update of node addresses, fits twice into the silence. */
export const fullPace: Pace = { lease: "default", eventfulMs: 15 * minuteMs, silentMs: 10 * minuteMs };
/** The other periodic work has periods of seconds. */
const briefSilenceMs = 2 * minuteMs;
const briefEventfulMs = 5 * minuteMs;

/** The pace of a seed, from numbers of its own. */
export function paceOf(seed: number): Pace {
  const random = randomOf(seed ^ 0x0bad_7e4d);
  const [timings, length, silence] = [random(), random(), random()];
  return {
    lease: timings < 0.25 ? "default" : timings < 0.7 ? "relaxed" : "slow",
    eventfulMs: length < 0.4 ? briefEventfulMs : fullPace.eventfulMs,
    silentMs: silence < 0.2 ? fullPace.silentMs : briefSilenceMs,
  };
}
