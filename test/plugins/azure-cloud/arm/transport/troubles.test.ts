import { expect, test } from "bun:test";

import { RetryAfterError } from "cloud-controller-host/sdk";
import { manualClock } from "cloud-controller-host/sdk/testing";

import { createLogger } from "../../../../../host/process/log/log.ts";
import { Troubles } from "../../../../../plugins/azure-cloud/arm/transport/troubles.ts";

function openTroubles() {
  const clock = manualClock();
  const lines: string[] = [];
  const log = createLogger({ format: "json", verbosity: 0, write: (line) => void lines.push(line) });
  const troubles = new Troubles({ clock, log });
  const failing = (): readonly string[] =>
    troubles.warnings.map(({ kind, text }) => `${kind} ${text.split(" fails")[0]}`);
  return { clock, lines, troubles, failing };
}

const minute = 60_000;

test("an answer ends the throttling of all requests with the same limit, and the failure of its own request alone", () => {
  const { troubles, failing } = openTroubles();
  const throttled = new RetryAfterError(5_000, "too many requests");
  troubles.failed("GET networkInterfaces list", throttled);
  troubles.failed("PUT networkInterfaces", throttled);
  troubles.failed("GET networkInterfaces", new Error("connection refused"));
  troubles.failed("GET networkInterfaces of a set", new Error("connection refused"));
  troubles.answered("GET networkInterfaces");
  expect(failing()).toEqual(["RequestsThrottled PUT networkInterfaces", "RequestsFail GET networkInterfaces of a set"]);
});

test("a failure without another attempt is forgotten after 15 minutes, a throttling one minute after its end", async () => {
  const { clock, troubles, failing } = openTroubles();
  troubles.failed("PUT one", new RetryAfterError(5_000, "too many requests"));
  troubles.failed("PUT two", new Error("connection refused"));
  await clock.advance(minute + 5_000);
  expect(failing()).toEqual(["RequestsThrottled PUT one", "RequestsFail PUT two"]);
  await clock.advance(1);
  expect(failing()).toEqual(["RequestsFail PUT two"]);
  await clock.advance(14 * minute - 5_001);
  expect(failing()).toEqual(["RequestsFail PUT two"]);
  await clock.advance(1);
  expect(failing()).toEqual([]);
});

test("a request that keeps failing is logged once, and shown with its attempts", () => {
  const { lines, troubles } = openTroubles();
  for (let attempt = 0; attempt < 3; attempt++) troubles.failed("PUT one", new Error("connection refused"));
  expect(lines).toHaveLength(1);
  expect(troubles.warnings[0]?.text).toMatch(/^PUT one fails since \S+, 3 attempts: connection refused$/u);
});
