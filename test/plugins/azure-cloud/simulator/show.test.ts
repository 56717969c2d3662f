import { expect, test } from "bun:test";

import { showResources } from "../../../../plugins/azure-cloud/simulator/show.ts";

test("a resource is shown under ARM's name of its type, however its last request spelled it", () => {
  const resource = { name: "kubernetes", sku: { name: "Standard" }, properties: {} };
  for (const type of ["microsoft.network/loadbalancers", "Microsoft.Network/loadBalancers"])
    expect(showResources([{ ...resource, type }], undefined)).toEqual(["loadBalancers/kubernetes  Standard"]);
});
