import { expect, test } from "bun:test";

import { openWorld } from "../world.ts";

test("the revision changes with every resource and instance that changes, and with nothing else", async () => {
  await using world = await openWorld();
  const { simulator: azure } = world;
  const id = "/providers/Microsoft.Network/loadBalancers/lb";
  const changes: Readonly<Record<string, () => unknown>> = {
    "a resource is created": () => azure.put(id, {}),
    "a resource is written again": () => azure.put(id, { tags: { a: "b" } }),
    "a resource is deleted": () => azure.delete(id),
    "an instance is added": () => azure.addScaleSetInstances("vmss0", 1, { computerName: "one" }),
    "an instance is changed": () => azure.changeInstance("one", { powerState: "stopped" }),
    "an instance is removed": () => azure.removeInstance("one"),
  };
  let before = azure.revision();
  for (const [what, change] of Object.entries(changes)) {
    await change();
    expect(azure.revision(), what).not.toBe(before);
    before = azure.revision();
  }
  azure.resources();
  azure.instances("vmss0");
  expect(azure.delete(id)).toBe(false);
  expect(azure.revision()).toBe(before);
});
