import { once } from "node:events";
import type { Writable } from "node:stream";

export const eventStream = "text/event-stream";

/**
 * Never more than one event is in memory: the next is taken when the client has room for it. The signal ends it, and
 * then it may reject.
 */
export async function sendEvents(
  events: ReadableStream<Uint8Array>,
  outgoing: Writable,
  begin: () => void,
  signal: AbortSignal,
): Promise<void> {
  const reader = events.getReader();
  const gone = (): void => void reader.cancel().catch(() => undefined);
  signal.addEventListener("abort", gone, { once: true });
  try {
    signal.throwIfAborted();
    begin();
    for (let next = await reader.read(); !next.done; next = await reader.read())
      if (!outgoing.write(next.value)) await once(outgoing, "drain", { signal });
    outgoing.end();
  } finally {
    gone();
  }
}
