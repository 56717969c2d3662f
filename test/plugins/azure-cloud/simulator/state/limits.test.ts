import { describe, expect, test } from "bun:test";

import { objectAt, stringAt } from "../../../../../plugins/azure-cloud/json.ts";
import { defaultLimits, type SubscriptionLimits } from "../../../../../plugins/azure-cloud/simulator/state/limits.ts";
import { type RawClient, rawClient, type RawReply } from "../../raw-client.ts";
import { openWorld } from "../../world.ts";

const network = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network";
const balancer = `${network}/loadBalancers/lb`;
const subnet = { id: `${network}/virtualNetworks/vnet0/subnets/subnet0` };
const pool = { id: `${balancer}/backendAddressPools/p` };
const scaleSet = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Compute/virtualMachineScaleSets/vmss0";

const range = (count: number): readonly number[] => Array.from({ length: count }, (_, index) => index);
const codeOf = ({ status, body }: RawReply): string =>
  status < 300 ? "accepted" : (stringAt(objectAt(body, "error"), "code") ?? "");

const frontends = (count: number) => range(count).map((index) => ({ name: `f${index}`, properties: { subnet } }));
const rules = (count: number) =>
  range(count).map((index) => ({
    name: `r${index}`,
    properties: {
      frontendIPConfiguration: { id: `${balancer}/frontendIPConfigurations/f0` },
      backendAddressPool: pool,
      protocol: "Tcp",
      frontendPort: index + 1,
      backendPort: index + 1,
    },
  }));
const put = (arm: RawClient, properties: object) =>
  arm("PUT", balancer, { body: { sku: { name: "Standard" }, properties } });
/** A write of as much as is given, and the code of ARM when that is too much. */
interface Edge {
  readonly limit: keyof SubscriptionLimits;
  readonly code: string;
  readonly write: (arm: RawClient, count: number) => Promise<RawReply>;
}

/** Lower than Azure's, which take long to reach. Those of the planner: `load-balancer/model/limits.test.ts`. */
const limits: SubscriptionLimits = { ...defaultLimits, publicIPAddresses: 5, routes: 5 };

const edges: readonly Edge[] = [
  {
    limit: "publicIPAddresses",
    code: "PublicIPCountLimitReached",
    async write(arm, count) {
      const replies = range(count).map((index) =>
        arm("PUT", `${network}/publicIPAddresses/pip${index}`, { body: { properties: {} } }),
      );
      const all = await Promise.all(replies);
      return all.find(({ status }) => status >= 300) ?? all[0] ?? Promise.reject(new Error("nothing written"));
    },
  },
  {
    limit: "routes",
    code: "RouteCountLimitReached",
    write: (arm, count) =>
      arm("PUT", `${network}/routeTables/rt0`, {
        body: {
          properties: {
            routes: range(count).map((index) => ({
              name: `r${index}`,
              properties: { addressPrefix: `10.9.${index}.0/24`, nextHopType: "VnetLocal" },
            })),
          },
        },
      }),
  },
];

describe("a write is accepted at a limit of Azure, and refused beyond it", () => {
  test.each(edges)(
    "a write is accepted at a limit of Azure, and refused beyond it: $limit",
    async ({ limit, code, write }) => {
      for (const [beyond, expected] of [
        [0, "accepted"],
        [1, code],
      ] as const) {
        await using world = await openWorld({ limits });
        const arm = await rawClient(world.simulator);
        expect(codeOf(await write(arm, limits[limit] + beyond))).toBe(expected);
      }
    },
  );

  test("a write is accepted at a limit of Azure, and refused beyond it: rulesPerInterface, over the pools of all its load balancers", async () => {
    await using world = await openWorld({ limits: { rulesPerInterface: 3 } });
    await world.simulator.addInstances(1);
    const arm = await rawClient(world.simulator);
    const parts = { frontendIPConfigurations: frontends(1), backendAddressPools: [{ name: "p" }] };
    await put(arm, parts);
    const other = `${network}/loadBalancers/other`;
    const pip = await arm("PUT", `${network}/publicIPAddresses/pip`, {
      body: { sku: { name: "Standard" }, properties: {} },
    });
    const frontend = { name: "f0", properties: { publicIPAddress: { id: pip.body["id"] } } };
    await arm("PUT", other, {
      body: {
        sku: { name: "Standard" },
        properties: {
          frontendIPConfigurations: [frontend],
          backendAddressPools: [{ name: "p" }],
          loadBalancingRules: JSON.parse(JSON.stringify(rules(1)).replaceAll("/lb/", "/other/")),
        },
      },
    });
    const pools = [pool, { id: `${other}/backendAddressPools/p` }];
    const configuration = { name: "c", properties: { subnet, loadBalancerBackendAddressPools: pools } };
    const interfaces = [{ name: "nic0", properties: { primary: true, ipConfigurations: [configuration] } }];
    const networkProfileConfiguration = { networkInterfaceConfigurations: interfaces };
    const body = { location: "eastus", properties: { networkProfileConfiguration } };
    expect((await arm("PUT", `${scaleSet}/virtualMachines/0`, { body })).status).toBe(202);
    expect(codeOf(await put(arm, { ...parts, loadBalancingRules: rules(2) }))).toBe("accepted");
    expect(codeOf(await put(arm, { ...parts, loadBalancingRules: rules(3) }))).toBe(
      "LoadBalancerRuleCountLimitReachedForNic",
    );
  });
});
