import { expect, test } from "bun:test";

import { editInterfaces } from "../../../../../plugins/azure-cloud/load-balancer/pools/pool-edits.ts";

const pool = {
  id: "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/loadBalancers/l/backendAddressPools/p",
};
const options = { standard: true };

/** An instance with a second and a primary interface, in these pools. */
const interfacesIn = (second: readonly (typeof pool)[], primary: readonly (typeof pool)[]) => [
  { primary: false, ipConfigurations: [{ primary: true, loadBalancerBackendAddressPools: second }] },
  { primary: true, ipConfigurations: [{ primary: true, loadBalancerBackendAddressPools: primary }] },
];

test("an instance joins a pool with its primary interface, and leaves it with all of them", () => {
  const edit = { poolId: pool.id, family: "IPv4" } as const;
  const joined = editInterfaces(interfacesIn([], []), [{ ...edit, change: "join" }], options);
  expect(joined).toEqual(interfacesIn([], [pool]));
  const left = editInterfaces(interfacesIn([pool], [pool]), [{ ...edit, change: "leave" }], options);
  expect(left).toEqual(interfacesIn([], []));
});
