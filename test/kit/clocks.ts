import type { Clock } from "cloud-controller-host/sdk";

import { systemClock } from "../../host/async/clock.ts";

/** Shorter sleeps would keep the processor busy: loops look again after each. */
const minHurriedMs = 5;

/** Real time in which sleeps are `times` shorter: waits that are meant for a service elsewhere. */
export const hurriedClock = (times: number): Clock => ({
  ...systemClock,
  sleep: (ms, signal) => systemClock.sleep(Math.min(ms, Math.max(minHurriedMs, ms / times)), signal),
});

/** Real time that can be set forward; sleeps end with it. */
export function jumpingClock(): Clock & { readonly jump: (ms: number) => void } {
  let jumpedMs = 0;
  const monotonic = (): number => performance.now() + jumpedMs;
  return {
    now: () => Date.now() + jumpedMs,
    monotonic,
    async sleep(ms, signal) {
      const endMs = monotonic() + ms;
      const isEnded = (): boolean => monotonic() >= endMs || signal?.aborted === true;
      while (!isEnded()) await systemClock.sleep(Math.min(20, endMs - monotonic()), signal);
    },
    jump: (ms) => void (jumpedMs += ms),
  };
}
