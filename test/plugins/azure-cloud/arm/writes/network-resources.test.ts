import { expect, test } from "bun:test";

import { manualClock } from "cloud-controller-host/sdk/testing";

import { networkResources, outdate } from "../../../../../plugins/azure-cloud/arm/writes/network-resources.ts";
import { decodeConfig } from "../../../../../plugins/azure-cloud/config/decode.ts";
import { openWorld } from "../../world.ts";

const scope = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network";
const types = {
  loadBalancers: "loadBalancers",
  publicIPAddresses: "publicIPs",
  networkSecurityGroups: "securityGroups",
  privateLinkServices: "privateLinkServices",
} as const;

test.each(["loadBalancers", "publicIPAddresses", "networkSecurityGroups", "privateLinkServices"] as const)(
  "one of the %s of Azure that is outdated is read again by itself, in whatever case it is named, and no other is",
  async (type) => {
    await using world = await openWorld();
    const { simulator } = world;
    const document: unknown = JSON.parse(simulator.configWith({}));
    const decoded = decodeConfig({ ...(typeof document === "object" ? document : {}) }, {});
    if (!decoded.ok) throw new Error(decoded.problems.join("; "));
    const options = { clock: manualClock(), signal: new AbortController().signal };
    const network = networkResources(await world.clients(), decoded.value, options);
    // The one security group of a cluster exists, and has its name in the config.
    const name = type === "networkSecurityGroups" ? decoded.value.securityGroupName : "one";
    const id = `${scope}/${type}/${name}`;
    if (simulator.get(id) === undefined) simulator.put(id, { properties: {} });
    const readAll = () => Promise.all(Object.values(network).map((resources) => resources.all("rg0")));
    await readAll();
    simulator.clearLog();
    outdate(network, id.toUpperCase());
    await readAll();
    expect(simulator.log.map(({ path }) => path.toLowerCase())).toEqual([id.toLowerCase()]);
    expect((await network[types[type]].all("rg0")).map((one) => one.name)).toEqual([name]);
    outdate(network, `${scope}/virtualNetworks/vnet0`);
    await readAll();
    expect(simulator.log).toHaveLength(1);
  },
);
