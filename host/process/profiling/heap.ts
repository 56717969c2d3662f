import { heapStats } from "bun:jsc";

import { CodedError } from "cloud-controller-host/sdk";

/**
 * The runtime stands still while it walks the heap: for 1.5 µs an object, or 5 µs where others want the processor too.
 * Up to this many objects a leader's lease is in no danger; whoever leads nothing has time. A host that has just begun
 * holds about 250,000.
 */
export const heapLimits = { leading: 400_000, standby: 3_000_000 } as const;
const secondsAnObject = 5e-6;

let running = false;

/**
 * How many objects of each type there are and what they weigh: what `?debug=1` shows. It takes milliseconds, whatever
 * the size of the heap.
 */
export function heapSummary(): string {
  const { heapSize, heapCapacity, extraMemorySize, objectTypeCounts } = heapStats();
  const { rss } = process.memoryUsage();
  const head = { heapSize, heapCapacity, extraMemorySize, rss, objects: countObjects() };
  const counts = Object.entries(objectTypeCounts).toSorted(([, one], [, other]) => other - one);
  const lines = [...Object.entries(head).map(([name, value]) => `# ${name} = ${value}`), ""];
  return [...lines, ...counts.map(([type, count]) => `${String(count).padStart(9)} ${type}`), ""].join("\n");
}

/** The runtime's own sum is 0 until memory has been cleared for the first time; its counts by type never are. */
const countObjects = (): number => Object.values(heapStats().objectTypeCounts).reduce((sum, count) => sum + count, 0);

/**
 * A snapshot for the memory panel of browsers' developer tools, with every string blotted out: what a process holds in
 * memory is full of credentials. Rejects with `HeapTooLarge` or `ProfileRunning`.
 */
export async function takeHeapSnapshot(limit: number): Promise<Uint8Array<ArrayBuffer>> {
  const objects = countObjects();
  if (objects > limit) {
    const seconds = (objects * secondsAnObject).toFixed(1);
    const why = `its ${objects} objects may hold the event loop, and with it the lease, for ${seconds} s`;
    throw new CodedError(
      "HeapTooLarge",
      `the heap is too large for a snapshot: ${why}; ask a standby, or for ?debug=1, which counts objects`,
    );
  }
  if (running) throw new CodedError("ProfileRunning", "a heap snapshot is being taken already; try again later");
  running = true;
  try {
    return await blotted(Bun.generateHeapSnapshot("v8", "arraybuffer"));
  } finally {
    running = false;
  }
}

/** Done in a thread of its own: reading and writing it takes as long as taking it. */
function blotted(snapshot: ArrayBuffer): Promise<Uint8Array<ArrayBuffer>> {
  const worker = new Worker(new URL("./heap-worker.ts", import.meta.url));
  const done = Promise.withResolvers<Uint8Array<ArrayBuffer>>();
  worker.addEventListener("message", ({ data }: MessageEvent<Uint8Array<ArrayBuffer>>) => done.resolve(data));
  worker.addEventListener("error", ({ message }) => done.reject(new CodedError("SnapshotFailed", message)));
  worker.postMessage(snapshot, [snapshot]);
  return done.promise.finally(() => worker.terminate());
}
