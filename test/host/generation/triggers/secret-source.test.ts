import { expect, test } from "bun:test";

import { kinds } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { GenerationFence } from "../../../../host/generation/scope/fence.ts";
import { secretSource } from "../../../../host/generation/triggers/secret-source.ts";
import { SlotRig } from "../slot-rig.ts";

const secret = { namespace: "kube-system", name: "azure-cloud-provider" };
const dataOf = (text: string): Record<string, string> => ({ "cloud-config": btoa(text) });

test("a watched Secret is read from the cache, also while the API server cannot be reached", async () => {
  await using rig = await SlotRig.start();
  const unreachable = await SlotRig.start();
  const client = unreachable.scope.client("test", new GenerationFence(() => true), 1);
  await unreachable[Symbol.asyncDispose]();
  rig.api.create(kinds.Secret, { metadata: secret, data: dataOf("one") });
  const informers = rig.scope.informers.share();
  const source = secretSource({ client, informers, ...secret, key: "cloud-config" });
  await expect(source.read()).rejects.toThrow("Secret kube-system/azure-cloud-provider (key cloud-config): ");
  let hints = 0;
  const watch = source.watch(() => void hints++);
  await eventually("the Secret is read", () => hints === 1);
  expect(await source.read()).toBe("one");
  rig.api.update(kinds.Secret, secret, (before) => ({ ...before, data: dataOf("two") }));
  await eventually("the change is seen", () => hints === 2);
  expect(await source.read()).toBe("two");
  watch.close();
  informers.release();
});

test("a Secret or a key of it that does not exist is an error that names it and the flag to correct", async () => {
  await using rig = await SlotRig.start();
  const client = rig.scope.client("test", new GenerationFence(() => true), 1);
  const informers = rig.scope.informers.share();
  const source = secretSource({ client, informers, ...secret, key: "cloud-config" });
  const named = "Secret kube-system/azure-cloud-provider (key cloud-config): the Secret";
  await expect(source.read()).rejects.toThrow(`${named} does not exist; create it or correct --cloud-config-secret`);
  rig.api.create(kinds.Secret, { metadata: secret, data: { other: btoa("one") } });
  await expect(source.read()).rejects.toThrow(`${named} has no such key; add it or correct --cloud-config-key`);
  informers.release();
});

test("a value of a Secret that is not UTF-8 is an error, not a config with other characters", async () => {
  await using rig = await SlotRig.start();
  const client = rig.scope.client("test", new GenerationFence(() => true), 1);
  const informers = rig.scope.informers.share();
  const source = secretSource({ client, informers, ...secret, key: "cloud-config" });
  // `btoa` encodes one byte per character, as in Latin-1.
  rig.api.create(kinds.Secret, { metadata: secret, data: dataOf("aadClientSecret: café") });
  const named = "Secret kube-system/azure-cloud-provider (key cloud-config): its value is not UTF-8";
  await expect(source.read()).rejects.toThrow(named);
  informers.release();
});
