import { expect, test } from "bun:test";

import { GoneBalancers } from "../../../../../../plugins/azure-cloud/load-balancer/reconcile/later/gone-balancers.ts";

const idOf = (name: string): string =>
  `/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/loadBalancers/${name}`;
const shown = (...ids: readonly string[]) => ({ loadBalancers: ids.map((id) => ({ id, location: "eastus" })) });

function open(loadBalancers: readonly string[]) {
  const gone: string[] = [];
  return { gone, balancers: new GoneBalancers({ loadBalancers, planPool: async (id) => void gone.push(id) }) };
}

test("one of several load balancers is gone once an observation lacks it, and again when it is gone again", () => {
  const { balancers, gone } = open(["kubernetes", "gold"]);
  const [kubernetes, gold, internal] = ["kubernetes", "Gold", "gold-internal"].map(idOf);
  balancers.seen(shown(kubernetes ?? "", gold ?? "", internal ?? ""));
  balancers.seen(shown(kubernetes?.toUpperCase() ?? "", gold ?? "", internal ?? ""));
  expect(gone).toEqual([]);
  balancers.seen(shown(kubernetes ?? ""));
  balancers.seen(shown(kubernetes ?? ""));
  expect(gone).toEqual([gold ?? "", internal ?? ""]);
  balancers.seen(shown(kubernetes ?? "", gold ?? ""));
  balancers.seen(shown(kubernetes ?? ""));
  expect(gone).toHaveLength(3);
});

test("load balancers of others, and the only one of a cluster, concern no other when they are gone", () => {
  for (const names of [["kubernetes", "gold"], []]) {
    const { balancers, gone } = open(names);
    const own = names.map(idOf);
    balancers.seen(shown(...own, idOf("of-a-user")));
    balancers.seen(shown(...own));
    expect(gone).toEqual([]);
  }
});
