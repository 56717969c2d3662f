import { expect, test } from "bun:test";

import { editInterfaces } from "../../../../../plugins/azure-cloud/load-balancer/pools/pool-edits.ts";

const pool = {
  id: "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/loadBalancers/l/backendAddressPools/p",
};
const empty = { ipConfigurations: [{ primary: true }] };
const member = { ipConfigurations: [{ primary: true, loadBalancerBackendAddressPools: [pool] }] };
const options = { standard: true };

test("an instance joins a pool with its primary interface, and leaves it with all of them", () => {
  const [join, leave] = (["join", "leave"] as const).map((change) => [
    { poolId: pool.id, family: "IPv4" as const, change },
  ]);
  const two = (one: typeof empty | typeof member) => [
    { primary: false, ...one },
    { primary: true, ...one },
  ];
  const joined = editInterfaces(two(empty), join ?? [], options);
  expect(joined).toEqual([
    { primary: false, ...empty },
    { primary: true, ...member },
  ]);
  const left = editInterfaces(two(member), leave ?? [], options);
  expect(left?.map(({ ipConfigurations }) => ipConfigurations[0]?.loadBalancerBackendAddressPools)).toEqual([[], []]);
});
