import type { Clock } from "cloud-controller-host/sdk";

/** The system clock. A finished sleep leaves neither a timer nor a listener behind. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep(ms, signal) {
    if (signal?.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", end);
        resolve();
      };
      const timer = setTimeout(end, Math.min(Math.max(0, ms), longestTimeoutMs));
      signal?.addEventListener("abort", end, { once: true });
    });
  },
};

/** `setTimeout` fires immediately beyond this (2³¹−1 ms, about 24.8 days). */
const longestTimeoutMs = 0x7fff_ffff;
