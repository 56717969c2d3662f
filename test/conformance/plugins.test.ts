import { describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";

import type { CloudPlugin, ControllerPlugin } from "cloud-controller-host/sdk";
import { cloudConformance, type CloudHarness } from "cloud-controller-host/sdk/testing";

import {
  type ControllerSuiteOptions,
  describeConformance,
  describeController,
  memoryCloudHarness,
} from "../kit/conformance.ts";
import { azureCloudHarness } from "./azure-cloud.ts";
import { machines } from "./node-ipam.ts";

/** The ways in which a controller is run through the suite, by folder; default: once, with everything switched on. */
const variants: Readonly<Record<string, Readonly<Record<string, ControllerSuiteOptions>>>> = {
  "azure-node-ipam": {
    RangeAllocator: {},
    CloudAllocator: { work: machines, flags: { cidrAllocatorType: "CloudAllocator" } },
  },
};

/** What each cloud is run against, by folder. Without a default: a cloud's simulator cannot be guessed. */
const clouds: Readonly<Record<string, CloudHarness>> = { "azure-cloud": azureCloudHarness };

const root = join(import.meta.dir, "..", "..", "plugins");
const folders = readdirSync(root, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)
  .toSorted();

const plugins = await Promise.all(
  folders.map(async (folder): Promise<{ readonly folder: string; readonly plugin: ControllerPlugin | CloudPlugin }> => {
    const { default: plugin } = await import(join(root, folder, "plugin.ts"));
    return { folder, plugin };
  }),
);

const tested: string[] = [];

for (const { folder, plugin } of plugins) {
  if (plugin.kind === "controller") {
    tested.push(folder);
    for (const [name, options] of Object.entries(variants[folder] ?? { "everything switched on": {} }))
      describe(`a controller with ${name}`, () => describeController(plugin, options));
  }
  const harness = clouds[folder];
  if (plugin.kind === "cloud" && harness !== undefined) {
    tested.push(folder);
    describeConformance(folder, cloudConformance(harness));
  }
}

describeConformance("the cloud in memory", cloudConformance(memoryCloudHarness()));

test("runs every plugin of the project through its suite", () => {
  expect(tested.toSorted()).toEqual(folders);
  expect(tested.length).toBeGreaterThan(0);
});

test("has settings only for existing plugins", () => {
  expect(Object.keys({ ...variants, ...clouds }).filter((folder) => !folders.includes(folder))).toEqual([]);
});
