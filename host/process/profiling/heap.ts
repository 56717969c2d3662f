import { heapStats } from "bun:jsc";

import { CodedError } from "cloud-controller-host/sdk";

/**
 * A heap walk stops the runtime for 1.5 µs per object, or 5 µs on a busy machine. Up to this many objects a leader's
 * lease is safe; a standby has no limit. A freshly started host has about 250,000 objects.
 */
export const heapLimits = { leading: 400_000, standby: 3_000_000 } as const;
const secondsAnObject = 5e-6;

let running = false;

/**
 * Counts and sizes of objects by type, as shown by `?debug=1`. Takes milliseconds, independent of the heap size.
 */
export function heapSummary(): string {
  const { heapSize, heapCapacity, extraMemorySize, objectTypeCounts } = heapStats();
  const { rss } = process.memoryUsage();
  const head = { heapSize, heapCapacity, extraMemorySize, rss, objects: countObjects() };
  const counts = Object.entries(objectTypeCounts).toSorted(([, one], [, other]) => other - one);
  const lines = [...Object.entries(head).map(([name, value]) => `# ${name} = ${value}`), ""];
  return [...lines, ...counts.map(([type, count]) => `${String(count).padStart(9)} ${type}`), ""].join("\n");
}

/** The runtime's own total is 0 until the first garbage collection; its counts by type are not. */
const countObjects = (): number => Object.values(heapStats().objectTypeCounts).reduce((sum, count) => sum + count, 0);

/**
 * A snapshot for the memory panel of browser developer tools, with all strings removed, since memory contains
 * credentials. Rejects with `ProfileFailed`.
 */
export async function takeHeapSnapshot(limit: number): Promise<Uint8Array<ArrayBuffer>> {
  const objects = countObjects();
  if (objects > limit) {
    const seconds = (objects * secondsAnObject).toFixed(1);
    const why = `its ${objects} objects may hold the event loop, and with it the lease, for ${seconds} s`;
    throw new CodedError(
      "ProfileFailed",
      `the heap is too large for a snapshot: ${why}; ask a standby, or for ?debug=1, which counts objects`,
    );
  }
  if (running) throw new CodedError("ProfileFailed", "a heap snapshot is already in progress; try again later");
  running = true;
  try {
    return await blotted(Bun.generateHeapSnapshot("v8", "arraybuffer"));
  } finally {
    running = false;
  }
}

/** Runs in a worker thread: parsing and writing a snapshot takes as long as taking it. */
function blotted(snapshot: ArrayBuffer): Promise<Uint8Array<ArrayBuffer>> {
  const worker = new Worker(new URL("./heap-worker.ts", import.meta.url));
  const done = Promise.withResolvers<Uint8Array<ArrayBuffer>>();
  worker.addEventListener("message", ({ data }: MessageEvent<Uint8Array<ArrayBuffer>>) => done.resolve(data));
  worker.addEventListener("error", ({ message }) => done.reject(new CodedError("ProfileFailed", message)));
  worker.postMessage(snapshot, [snapshot]);
  return done.promise.finally(() => worker.terminate());
}
