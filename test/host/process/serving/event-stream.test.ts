import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { Writable } from "node:stream";

import { sendEvents } from "../../../../host/process/serving/event-stream.ts";

setDefaultTimeout(120_000);

/** Events without an end, how many were taken, and whether they were canceled. */
function endless() {
  let [sent, isCanceled] = [0, false];
  const events = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        sent += 1;
        controller.enqueue(new Uint8Array(10));
      },
      cancel: () => void (isCanceled = true),
    },
    { highWaterMark: 0 },
  );
  return { events, sent: () => sent, isCanceled: () => isCanceled };
}

/** A client that never has room for another event. */
const slowClient = () => new Writable({ highWaterMark: 1, write: () => undefined });
const begin = (): void => undefined;

describe("a stream of events", () => {
  test("takes no event before the client has room for it, and ends with the request", async () => {
    const { events, sent, isCanceled } = endless();
    const over = new AbortController();
    const sending = sendEvents(events, slowClient(), begin, over.signal).catch(() => "ended");
    await Bun.sleep(20);
    expect(sent()).toBe(1);
    over.abort();
    expect(await sending).toBe("ended");
    expect(isCanceled()).toBe(true);
  });

  test("is not begun when the client has left before", async () => {
    const { events, isCanceled } = endless();
    const sending = sendEvents(events, slowClient(), () => expect.unreachable(), AbortSignal.abort("left"));
    expect(await sending.catch(String)).toBe("left");
    expect(isCanceled()).toBe(true);
  });

  test("is canceled when its head cannot be written", async () => {
    const { events, isCanceled } = endless();
    const fail = (): void => {
      throw new Error("no head");
    };
    const sending = sendEvents(events, slowClient(), fail, new AbortController().signal);
    expect(await sending.catch(String)).toBe("Error: no head");
    expect(isCanceled()).toBe(true);
  });
});
