import { expect, test } from "bun:test";

import { editInterfaces } from "../../../../../plugins/azure-cloud/load-balancer/pools/pool-edits.ts";
import { editedModel } from "../../../../../plugins/azure-cloud/load-balancer/pools/scale-set-models.ts";

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

test("an instance joins a pool with its only interface, and leaves it however its id is spelled", () => {
  const edit = { poolId: pool.id.toUpperCase(), family: "IPv4" } as const;
  const [, primary] = interfacesIn([], [pool]);
  const only = { ipConfigurations: primary?.ipConfigurations ?? [] };
  expect(editInterfaces([only], [{ ...edit, change: "leave" }], options)).toEqual([
    { ipConfigurations: [{ primary: true, loadBalancerBackendAddressPools: [] }] },
  ]);
  const [, empty] = interfacesIn([], []);
  const joined = editInterfaces(
    [{ ipConfigurations: empty?.ipConfigurations ?? [] }],
    [{ ...edit, change: "join" }],
    options,
  );
  expect(joined?.[0]?.ipConfigurations[0]?.loadBalancerBackendAddressPools).toEqual([{ id: edit.poolId }]);
});

/** The model of a scale set that is in the pool. */
const modelIn = (more: { readonly ipv4Only?: boolean; readonly deleting?: boolean }) => {
  const configuration = { name: "ipconfig0", primary: true, loadBalancerBackendAddressPools: [pool] };
  const interfaces = [{ name: "nic0", primary: true, ipConfigurations: [configuration] }];
  return { interfaces, ipv4Only: false, deleting: false, ...more };
};

test("the model of a scale set whose image has IPv4 only leaves a pool of IPv6 all the same", () => {
  const edit = { poolId: pool.id, family: "IPv6", change: "leave" } as const;
  const [left] = editedModel(modelIn({ ipv4Only: true }), [edit], options) ?? [];
  expect(left?.ipConfigurations[0]?.loadBalancerBackendAddressPools).toEqual([]);
});

test("the model of a scale set that is being deleted is left alone", () => {
  const edit = { poolId: pool.id, family: "IPv4", change: "leave" } as const;
  expect(editedModel(modelIn({ deleting: true }), [edit], options)).toBeUndefined();
});
