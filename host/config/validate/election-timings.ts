import { formatDuration } from "../values/durations.ts";

export interface LeaseTimings {
  /** Wait of other candidates after the last observed renewal before they take over. Written in whole seconds. */
  readonly leaseDurationMs: number;
  /** Time in which a leader must renew before it stops leading. */
  readonly renewDeadlineMs: number;
  readonly retryPeriodMs: number;
}

/** client-go's `JitterFactor`: a candidate sleeps its retry period times [1, 1 + 1.2). */
export const jitterFactor = 1.2;

/** A Lease holds its duration as an integer of seconds: the rest is cut off, and other candidates do not wait for it. */
const wholeSeconds = (ms: number): number => Math.floor(ms / 1000) * 1000;

const shown = (ms: number): string => (Number.isFinite(ms) ? formatDuration(ms) : String(ms));

/**
 * Every reason why an election with these timings would be unsafe or could not work, naming the flags.
 * Source: client-go `NewLeaderElector`; the comparison in whole seconds is ours.
 */
export function leaseTimingProblems(timings: LeaseTimings): readonly string[] {
  const { leaseDurationMs: lease, renewDeadlineMs: renew, retryPeriodMs: retry } = timings;
  const given = `--leader-elect-lease-duration=${shown(lease)}, --leader-elect-renew-deadline=${shown(renew)}, --leader-elect-retry-period=${shown(retry)}`;
  const rules: readonly (readonly [isMet: boolean, problem: string])[] = [
    [renew > 0, `--leader-elect-renew-deadline must be longer than 0s, got ${shown(renew)}`],
    [retry > 0, `--leader-elect-retry-period must be longer than 0s, got ${shown(retry)}`],
    [
      wholeSeconds(lease) > renew,
      `--leader-elect-lease-duration must exceed --leader-elect-renew-deadline; got ${given}${lease > renew ? ` (a Lease counts whole seconds: ${shown(wholeSeconds(lease))})` : ""}`,
    ],
    [
      renew > jitterFactor * retry,
      `--leader-elect-renew-deadline must exceed ${jitterFactor} times --leader-elect-retry-period; got ${given}`,
    ],
  ];
  return rules.flatMap(([isMet, problem]) => (isMet ? [] : [problem]));
}
