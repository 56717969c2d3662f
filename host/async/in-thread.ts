import { Worker } from "node:worker_threads";

import { type Clock, CodedError } from "cloud-controller-host/sdk";

import { within } from "./timeout.ts";

/** A module that posts one message to its parent, made of the data it is given; both can be cloned. */
export interface ThreadTask<Data> {
  readonly entry: URL;
  readonly name: string;
  readonly data: Data;
  readonly limitMs: number;
}

/**
 * Runs a module in a thread of its own and resolves with its answer; the thread and its memory end with it. Rejects when
 * the module throws, ends without an answer, or takes longer than its limit.
 */
export async function inThread<Data, Answer>(
  { entry, name, data, limitMs }: ThreadTask<Data>,
  clock: Clock,
): Promise<Answer> {
  const thread = new Worker(entry, { workerData: data, name });
  try {
    const answer = new Promise<Answer>((resolve, reject) => {
      thread.once("message", resolve);
      thread.once("error", reject);
      thread.once("exit", () => reject(new CodedError("ThreadFailed", `the thread "${name}" exited without a reply`)));
    });
    const answered = await within(clock, limitMs, answer);
    if (answered.done) return answered.value;
    throw new CodedError("ThreadFailed", `the thread "${name}" has not answered in ${limitMs / 1000} s`);
  } finally {
    void thread.terminate();
  }
}
