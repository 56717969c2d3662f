import { afterEach, beforeEach, expect, test } from "bun:test";

import { type Cloud, type Confirmations, defineCloud, messageOf, Type } from "cloud-controller-host/sdk";
import { manualClock, memoryCloud } from "cloud-controller-host/sdk/testing";

import { checkRemovals, UnrequestedRemovalsError } from "../../../../host/generation/prepare/check-removals.ts";
import { pluginsOf } from "../../../kit/no-plugins.ts";
import { SlotRig } from "../slot-rig.ts";

const clock = manualClock();
let rig: SlotRig;
beforeEach(async () => void (rig = await SlotRig.start({ initTimeout: 30_000 }, clock)));
afterEach(() => rig[Symbol.asyncDispose]());

const plugin = defineCloud({
  name: "memory",
  configSchema: Type.Object({}),
  decode: (value) => ({ ok: true, value, warnings: [] }),
  placement: ({ place }) => place,
  create: async () => memoryCloud().cloud,
});
const configOf = (document: Readonly<Record<string, unknown>>) => ({
  source: "a test",
  document,
  disabled: false,
  hash: JSON.stringify(document),
});
const removals = { hash: "abc", removals: Array.from({ length: 12 }, (_, index) => `frontend ${index}`) };

interface Change {
  readonly from?: Readonly<Record<string, unknown>>;
  readonly to?: Readonly<Record<string, unknown>>;
  readonly confirmations?: Confirmations;
  readonly signal?: AbortSignal;
}

/** The error of the check of a reload, or undefined where it passes. */
function check(
  ask: Cloud["unrequestedRemovals"],
  { from = { place: 1 }, to = { place: 2 }, confirmations, signal = new AbortController().signal }: Change = {},
): Promise<unknown> {
  const cloud = { ...memoryCloud().cloud, ...(ask && { unrequestedRemovals: ask }) };
  const spec = { plugins: pluginsOf({ clouds: [plugin] }), config: configOf(to) };
  const scope = { ...rig.scope, ...(confirmations && { confirmations }) };
  return checkRemovals(scope, cloud, { spec, former: configOf(from), signal }).then(
    () => undefined,
    (error: unknown) => error,
  );
}

/** Confirmations of these hashes. */
const confirmed = (...hashes: readonly string[]): Confirmations => ({
  isConfirmed: async (hash) => hashes.includes(hash),
  command: (hash) => `confirm ${hash}`,
});

test("a reload is refused when the cloud does not answer within --plugin-init-timeout, and stays in the ledger", async () => {
  const answer = Promise.withResolvers<undefined>();
  const failure = check(() => answer.promise);
  await clock.advance(30_000);
  expect(messageOf(await failure)).toMatch(
    /^the config places resources elsewhere, and what that would remove cannot be read: .* did not return within 30 s/u,
  );
  expect(rig.outstanding.entries).toMatchObject([{ name: 'cloud "memory": check of removals' }]);
  answer.resolve(undefined);
});

test("a reload is refused with the cloud's error, thrown at once or later", async () => {
  const later = await check(() => Promise.reject(new Error("403 Forbidden")));
  const atOnce = await check(() => {
    throw new Error("403 Forbidden");
  });
  for (const error of [later, atOnce]) expect(error).toMatchObject({ code: "CloudFailed" });
  for (const error of [later, atOnce]) expect(messageOf(error)).toEndWith("cannot be read: 403 Forbidden");
});

test("a check of removals ends with the preparation that it belongs to", async () => {
  const aborter = new AbortController();
  const failure = check(() => new Promise(() => undefined), { signal: aborter.signal });
  aborter.abort(new Error("superseded"));
  expect(messageOf(await failure)).toBe("superseded");
});

test("a refusal names ten removals, the number of others and how to confirm all", async () => {
  const failure = await check(async () => removals, { confirmations: confirmed("other") });
  expect(failure).toBeInstanceOf(UnrequestedRemovalsError);
  expect(messageOf(failure)).toEndWith(
    `confirm exactly this: confirm abc; removals: ${removals.removals.slice(0, 10).join(", ")}, and 2 more`,
  );
  expect(messageOf(await check(async () => removals))).toContain("restart the process with the new config");
});

test("a reload whose removals are confirmed passes, also when the cloud does not look at confirmations", async () => {
  expect(await check(async () => removals, { confirmations: confirmed("abc") })).toBeUndefined();
});

test("a reload is refused while its confirmation cannot be read, with a warning", async () => {
  const isConfirmed = (): Promise<boolean> => Promise.reject(new Error("no Lease"));
  const failure = await check(async () => removals, { confirmations: { ...confirmed(), isConfirmed } });
  expect(failure).toBeInstanceOf(UnrequestedRemovalsError);
  expect(rig.lines.join()).toContain("Failed to read confirmations of removals; treating them as unconfirmed");
});

test("a reload is refused with its removals when the read of its confirmation hangs for 10 s", async () => {
  const asked = Promise.withResolvers<void>();
  const isConfirmed = (): Promise<boolean> => {
    asked.resolve();
    return new Promise(() => undefined);
  };
  const failure = check(async () => removals, { confirmations: { ...confirmed(), isConfirmed } });
  await asked.promise;
  await clock.advance(10_000);
  expect(await failure).toBeInstanceOf(UnrequestedRemovalsError);
});

test("a cloud is asked for removals only when a key that places resources changes", async () => {
  let asked = 0;
  const ask = async (): Promise<undefined> => void (asked += 1);
  await check(ask, { from: { place: 1, cache: 1 }, to: { place: 1, cache: 2 } });
  expect(asked).toBe(0);
  await check(ask);
  expect(asked).toBe(1);
});
