import { describe, expect, test } from "bun:test";

import { createHttpHeaders, createPipelineRequest, type PipelineResponse } from "@azure/core-rest-pipeline";

import { linkSignals, sendWith } from "../../../../../plugins/azure-cloud/arm/transport/signals.ts";

describe("a request that is sent with another signal than its own", () => {
  const other = new AbortController().signal;
  const own = new AbortController().signal;
  const requestWith = (abortSignal?: AbortSignal) =>
    createPipelineRequest({ url: "https://arm.test/", ...(abortSignal && { abortSignal }) });

  test.each([
    ["with its own", own],
    ["without one", undefined],
  ])("has what it had afterwards, however it ends: %s", async (_, abortSignal) => {
    const request = requestWith(abortSignal);
    const seen: unknown[] = [];
    const answer = async (sent: typeof request): Promise<PipelineResponse> => {
      seen.push(sent.abortSignal);
      if (seen.length > 1) throw new Error("no reply");
      return { request: sent, status: 200, headers: createHttpHeaders() };
    };
    expect((await sendWith(other, request, answer)).status).toBe(200);
    expect(request.abortSignal).toBe(abortSignal);
    await expect(sendWith(other, request, answer)).rejects.toThrow("no reply");
    expect([seen, request.abortSignal]).toEqual([[other, other], abortSignal]);
    expect("abortSignal" in request).toBe(abortSignal !== undefined);
  });
});

test("a signal that is linked to two aborts with the first of them, and no longer once it is released", () => {
  const [first, second, third] = [new AbortController(), new AbortController(), new AbortController()];
  const link = linkSignals(first.signal, second.signal);
  second.abort("second");
  first.abort("first");
  expect([link.signal.aborted, link.signal.reason]).toEqual([true, "second"]);
  expect(linkSignals(first.signal, third.signal).signal.reason).toBe("first");
  const released = linkSignals(third.signal, new AbortController().signal);
  released.release();
  third.abort();
  expect(released.signal.aborted).toBe(false);
});
