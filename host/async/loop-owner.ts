/**
 * The name of the code that runs on the event loop now, in memory that another thread can read while the loop is
 * blocked. A controller's work is marked while it runs synchronously; what continues after an `await` is reported as
 * the last one that was marked.
 */
export interface LoopOwner {
  /** Runs `work` under the name; nested calls restore the outer name. */
  run<T>(name: string, work: () => T): T;
  /** Read by `readOwner`, from any thread. */
  readonly memory: SharedArrayBuffer;
}

const maxNameBytes = 248;

/** Layout: [current index + 1, or 0 for the host itself] [last index + 1] [names, each of fixed size]. */
const headerBytes = 8;
const maxNames = 64;

export function createLoopOwner(): LoopOwner {
  const memory = new SharedArrayBuffer(headerBytes + maxNames * maxNameBytes);
  const header = new Int32Array(memory, 0, 2);
  const indexes = new Map<string, number>();

  /** 1 and up; 0 if the table of names is full. */
  const indexOf = (name: string): number => {
    const known = indexes.get(name);
    if (known !== undefined) return known;
    if (indexes.size === maxNames) return 0;
    const index = indexes.size + 1;
    const bytes = new Uint8Array(memory, headerBytes + (index - 1) * maxNameBytes, maxNameBytes);
    bytes.set(new TextEncoder().encode(name).subarray(0, maxNameBytes));
    indexes.set(name, index);
    return index;
  };

  return {
    memory,
    run(name, work) {
      const outer = Atomics.load(header, 0);
      const index = indexOf(name);
      Atomics.store(header, 0, index);
      Atomics.store(header, 1, index);
      try {
        return work();
      } finally {
        Atomics.store(header, 0, outer);
      }
    },
  };
}

/** `current`: the marked code that runs now. `last`: the most recent one, which may continue after an `await`. */
export function readOwner(memory: SharedArrayBuffer): { readonly current: string; readonly last: string } {
  const header = new Int32Array(memory, 0, 2);
  const nameAt = (slot: number): string => {
    const index = Atomics.load(header, slot);
    if (index === 0) return "";
    // TextDecoder rejects shared memory, so the bytes are copied first.
    const bytes = new Uint8Array(memory, headerBytes + (index - 1) * maxNameBytes, maxNameBytes).slice();
    const end = bytes.indexOf(0);
    return new TextDecoder().decode(end === -1 ? bytes : bytes.subarray(0, end));
  };
  return { current: nameAt(0), last: nameAt(1) };
}
