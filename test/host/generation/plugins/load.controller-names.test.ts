import { expect, test } from "bun:test";

import { controllerAliases, controllerNames, namePattern } from "cloud-controller-host/sdk";

import { ownPluginDirectory } from "../../../../host/cli/command.ts";
import { loadPlugins } from "../../../../host/generation/plugins/load.ts";

const names: readonly string[] = Object.values(controllerNames);

/** upstream: `TestCloudControllerNamesConsistency`. The Azure provider's `node-ipam` is what clusters already write. */
test("a canonical name is lower-case words that end in -controller, but for node-ipam", () => {
  expect(names.filter((name) => !namePattern.test(name))).toEqual([]);
  expect(names.filter((name) => !name.endsWith("-controller"))).toEqual(["node-ipam"]);
});

test("no alias is another controller's name or alias", () => {
  const all = [...names, ...Object.values(controllerAliases).flat()];
  expect(new Set(all).size).toBe(all.length);
});

/** upstream: `TestCloudControllerNamesDeclaration`. */
test("every controller that comes with the host has a declared name, its aliases, and upstream's client name", async () => {
  const loaded = await loadPlugins([ownPluginDirectory]);
  if (!loaded.ok) throw new Error(loaded.problems.join("; "));
  const offered = loaded.plugins.controllers;
  expect(offered.map(({ name }) => name).toSorted()).toEqual(names.toSorted());
  for (const { name, aliases } of offered) expect(aliases).toEqual(controllerAliases[name] ?? []);
  expect(Object.fromEntries(offered.map(({ name, initContext }) => [name, initContext.clientName]))).toEqual({
    "cloud-node-controller": "node-controller",
    "cloud-node-lifecycle-controller": "node-controller",
    "node-ipam": "node-controller",
    "node-route-controller": "route-controller",
    "service-lb-controller": "service-controller",
  });
});
