import { expect, spyOn, test } from "bun:test";

import { defineCloud, Type } from "cloud-controller-host/sdk";
import { memoryCloud } from "cloud-controller-host/sdk/testing";

import { prepare } from "../../../../host/generation/prepare/prepare.ts";
import { pluginsOf } from "../../../kit/no-plugins.ts";
import { rejection } from "../../../kit/rejection.ts";
import { main, SlotRig } from "../slot-rig.ts";

test("a preparation that fails ends the work of its cloud before it disposes of the cloud", async () => {
  await using rig = await SlotRig.start();
  const aborted: boolean[] = [];
  const cloud = defineCloud({
    name: "memory",
    configSchema: Type.Object({}),
    decode: () => ({ ok: true, value: {}, warnings: [] }),
    create: async (_config, { signal }) => ({
      ...memoryCloud().cloud,
      [Symbol.asyncDispose]: async () => void aborted.push(signal.aborted),
    }),
  });
  rig.createController = () => Promise.reject(new Error("boom"));
  const plugins = pluginsOf({ controllers: [rig.controller("failing", main)], clouds: [cloud] });
  expect(await rejection(rig.installPlugins(plugins))).toContain('controller "failing" cannot be initialized: boom');
  expect(aborted).toEqual([true]);
});

test("preparations leave no listener on the signal of the process, whether they succeed or fail", async () => {
  await using rig = await SlotRig.start();
  const { signal } = new AbortController();
  const [added, removed] = [spyOn(signal, "addEventListener"), spyOn(signal, "removeEventListener")];
  const config = { source: "a test", document: {}, disabled: false, hash: "hash" };
  const spec = { plugins: rig.plugins([rig.controller("alpha", main)]), config };
  const options = { scope: rig.scope, report: rig.report.runs, number: 1, spec, signal };
  const prepared = () => prepare({ ...options, mayLeaveOut: () => false, mayRetry: () => false });
  const counts = (): readonly number[] => [added, removed].map(({ mock }) => mock.calls.length);
  await (await prepared()).dispose();
  expect(counts()).toEqual([1, 1]);
  rig.createController = () => Promise.reject(new Error("boom"));
  await rejection(prepared());
  expect(counts()).toEqual([2, 2]);
});

test("a cloud learns which keys of its config a reload changes, and none where no config is replaced", async () => {
  await using rig = await SlotRig.start();
  const seen: (readonly string[] | undefined)[] = [];
  const cloud = defineCloud({
    name: "memory",
    configSchema: Type.Object({}),
    decode: () => ({ ok: true, value: {}, warnings: [] }),
    create: async (_config, { changedKeys }) => {
      seen.push(changedKeys);
      return memoryCloud().cloud;
    },
  });
  const configOf = (document: Readonly<Record<string, unknown>>) => ({
    source: "a test",
    document,
    disabled: false,
    hash: "hash",
  });
  const spec = {
    plugins: pluginsOf({ controllers: [], clouds: [cloud] }),
    config: configOf({ secret: "new", subnetName: "a", vnetName: "b" }),
  };
  const { signal } = new AbortController();
  const options = { scope: rig.scope, report: rig.report.runs, number: 2, spec, signal };
  for (const former of [undefined, configOf({ secret: "old", subnetName: "a", vnetname: "b" }), spec.config]) {
    const prepared = await prepare({ ...options, former, mayLeaveOut: () => false, mayRetry: () => false });
    await prepared.dispose();
  }
  expect(seen.map((keys) => keys?.toSorted())).toEqual([[], ["secret", "vnetName", "vnetname"], []]);
});
