import { describe, expect, test } from "bun:test";

import { ArmError } from "../../../../../../plugins/azure-cloud/arm/errors.ts";
import {
  publicIPIn,
  unprovisionedIn,
} from "../../../../../../plugins/azure-cloud/load-balancer/reconcile/apply/unprovisioned.ts";

const group = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network";
const errorWith = (message: string, code = "ReferencedResourceNotProvisioned") => new ArmError(409, code, message);

describe("a public IP that an error of ARM names", () => {
  test.each(["kubernetes-aweb", "k8s.example.com-aweb", "my_pip_", "a"])("is found by its whole name: %s", (name) => {
    const id = `${group}/publicIPAddresses/${name}`;
    for (const message of [
      `Cannot proceed with operation because resource ${id} used by resource ${group}/loadBalancers/kubernetes is not in Succeeded state.`,
      `Resource is in Failed state: ${id}.`,
      `Resources ${id}, ${group}/loadBalancers/kubernetes are in use.`,
      `Resource '${id}' is in use.`,
      `Resource ${id}/ipTags is in use.`,
    ])
      expect(publicIPIn(errorWith(message))).toBe(id);
  });

  test("is looked for in the refusal of one that is not provisioned only", () => {
    const id = `${group}/publicIPAddresses/k8s.example.com-aweb`;
    expect(unprovisionedIn(errorWith(id))).toBe(id);
    expect(unprovisionedIn(errorWith(id, "AnotherCode"))).toBeUndefined();
    expect(unprovisionedIn(errorWith("no id"))).toBeUndefined();
    expect(unprovisionedIn(new Error(id))).toBeUndefined();
  });
});
