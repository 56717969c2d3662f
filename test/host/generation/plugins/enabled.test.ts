import { expect, test } from "bun:test";

import {
  defineCloud,
  defineController,
  defineWebhook,
  type Permission,
  skipped,
  Type,
} from "cloud-controller-host/sdk";
import { memoryCloud } from "cloud-controller-host/sdk/testing";

import { enabledPlugins, missingChoices, unknownVerbs } from "../../../../host/generation/plugins/enabled.ts";

const cloud = (name: string) =>
  defineCloud({
    name,
    configSchema: Type.Object({}),
    decode: () => ({ ok: true, value: {}, warnings: [] }),
    create: async () => memoryCloud().cloud,
  });
const controller = (name: string, enabledByDefault: boolean) =>
  defineController({ name, enabledByDefault, construct: () => () => skipped("a test") });
const webhook = (name: string) =>
  defineWebhook({ name, path: `/${name}`, rules: [], admit: () => ({ allowed: true }) });

const all = {
  clouds: [cloud("azure"), cloud("other")],
  controllers: [controller("on", true), controller("off", false), controller("more", true)],
  webhooks: [webhook("first"), webhook("second")],
};

test.each([
  [["*"], ["second"], ["on", "more"], ["second"]],
  [["off"], [], ["off"], []],
  [["*", "off", "-on"], ["*"], ["off", "more"], ["first", "second"]],
])("--controllers=%p --webhooks=%p enable these plugins, and only the cloud that is named", (...row) => {
  const [controllers, webhooks, enabledControllers, enabledWebhooks] = row;
  const enabled = enabledPlugins({ cloudProvider: "other", controllers, webhooks }, all);
  expect(enabled.clouds.map(({ name }) => name)).toEqual(["other"]);
  expect(enabled.controllers.map(({ name }) => name)).toEqual(enabledControllers);
  expect(enabled.webhooks.map(({ name }) => name)).toEqual(enabledWebhooks);
});

test("a plugin that flags name is missing when it was there before and is not now, and no other", () => {
  const choice = { cloudProvider: "azure", controllers: ["*", "on", "never", "-off"], webhooks: ["first"] };
  const before = new Map([
    ['controller "on"', "/plugins/on"],
    ['controller "off"', "/plugins/off"],
    ['cloud "azure"', "/plugins/azure"],
    ['webhook "first"', "/plugins/first"],
  ]);
  expect(missingChoices(choice, before, before)).toEqual([]);
  expect(missingChoices(choice, before, new Map([['cloud "azure"', "/elsewhere"]]))).toEqual([
    '--controllers: the controller "on" was in /plugins/on, and no plugin has this name now; restore it, or restart without it',
    '--webhooks: the webhook "first" was in /plugins/first, and no plugin has this name now; restore it, or restart without it',
  ]);
});

test("verbs that the API does not have are found in the permissions of a plugin that was not type-checked, each once", () => {
  const permissions: readonly Permission[] = JSON.parse(
    '[{"apiGroup":"","resources":["nodes"],"verbs":["get","lst"]},{"apiGroup":"","resources":["pods"],"verbs":["lst"]}]',
  );
  expect(unknownVerbs({ ...controller("on", true), permissions })).toEqual(["lst"]);
  expect(unknownVerbs({ ...cloud("azure"), permissions })).toEqual(["lst"]);
  expect([controller("on", true), cloud("azure"), webhook("first")].flatMap(unknownVerbs)).toEqual([]);
});
