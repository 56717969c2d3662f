import { expect, test } from "bun:test";

import { defineCloud, Type } from "cloud-controller-host/sdk";
import { memoryCloud } from "cloud-controller-host/sdk/testing";

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
