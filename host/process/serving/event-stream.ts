import type { Writable } from "node:stream";

export const eventStream = "text/event-stream";

/** Never more than one event is in memory: the next is taken when the client has room for it. */
export async function sendEvents(
  events: ReadableStream<Uint8Array>,
  outgoing: Writable,
  begin: () => void,
): Promise<void> {
  begin();
  const reader = events.getReader();
  const gone = (): void => void reader.cancel().catch(() => undefined);
  outgoing.once("close", gone);
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read())
      if (!outgoing.write(next.value)) await drained(outgoing);
    outgoing.end();
  } finally {
    gone();
  }
}

const drained = (outgoing: Writable): Promise<void> =>
  new Promise((resolve) => {
    outgoing.once("drain", resolve);
    outgoing.once("close", resolve);
  });
