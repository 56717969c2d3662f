import { expect, test } from "bun:test";

import { loadBalancerReady, syncFailureIn, syncFailureMessage } from "cloud-controller-host/sdk";

const { type, failed, synced } = loadBalancerReady;
const retryAt = "2026-11-22T12:00:05Z";
const read = (message: string) => syncFailureIn({ type, reason: failed, message });

test.each([
  { error: "denied", retryAt, warnings: "" },
  { error: "denied", retryAt, warnings: "annotation a is unknown; annotation b is unknown" },
  { error: "two\nlines; next retry at 2026-11-22T11:00:00Z; more", retryAt, warnings: "" },
  { error: "", retryAt, warnings: "one" },
])("a failed sync is read from its condition as it was written: %j", (failure) => {
  expect(read(syncFailureMessage(failure))).toEqual(failure);
});

test("no failed sync is read from another condition, or from a message that was cut", () => {
  const message = syncFailureMessage({ error: "denied", retryAt, warnings: "" });
  expect(message).toBe(`denied; next retry at ${retryAt}`);
  expect(syncFailureIn({ type, reason: synced, message })).toBeUndefined();
  expect(syncFailureIn({ type: "Other", reason: failed, message })).toBeUndefined();
  expect(read(message.slice(0, 20))).toBeUndefined();
  expect(read("")).toBeUndefined();
});
