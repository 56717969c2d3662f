import { expect, test } from "bun:test";

import type { Observed, ServiceIntent } from "../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import { plan } from "../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { intentOf, plannerConfigOf } from "../fixtures.ts";
import { converge, nodesNamed, world } from "../world.ts";
import { tagsOf } from "./largest-service.ts";

const single = plannerConfigOf();
const internal = { "azure-load-balancer-internal": "true" };

const setsOf = (count: number): readonly string[] => Array.from({ length: count }, (_, index) => `vmss${index}`);

/** Load balancers beside each other, each with the nodes of a scale set. */
const several = (count: number) =>
  plannerConfigOf({
    loadBalancerBackendPoolConfigurationType: "nodeIP",
    multipleStandardLoadBalancerConfigurations: setsOf(count).map((primaryVMSet, index) => ({
      name: index === 0 ? "kubernetes" : `lb${index}`,
      primaryVMSet,
    })),
  });

/** A settled cluster: half of the Services are internal, so that there are two load balancers of each configuration. */
function settled(services: number, nodes: number, config = single) {
  const list = nodesNamed(...Array.from({ length: nodes }, (_, index) => `node-${index}`));
  const intents = Array.from({ length: services }, (_, index) => {
    const uid = new Bun.CryptoHasher("md5").update(`${index}`).digest("hex");
    return intentOf({ name: `web-${index}`, uid, nodes: list, annotations: index % 2 === 0 ? internal : {} });
  });
  const sets = config.loadBalancers.map(({ primaryVMSet }) => primaryVMSet);
  const vmSets = new Map(list.map(({ metadata }, index) => [metadata?.name ?? "", sets[index % sets.length] ?? ""]));
  const start = world({ nodes: list, services: intents.map(({ service }) => service), vmSets });
  return { intents, observed: converge(intents, start, config).observed, config };
}

/** How often planning reads a property of what was observed of Azure, and of the nodes. */
function readsOf(
  intents: readonly ServiceIntent[],
  observed: Observed,
  config = single,
): { readonly azure: number; readonly nodes: number } {
  const reads = { azure: 0, nodes: 0 };
  const nodes = counted(observed.nodes, () => (reads.nodes += 1));
  plan(
    intents.map((intent) => ({ ...intent, nodes })),
    {
      ...observed,
      nodes,
      loadBalancers: counted(observed.loadBalancers, () => (reads.azure += 1)),
      publicIPs: counted(observed.publicIPs, () => (reads.azure += 1)),
    },
    config,
  );
  return reads;
}

/** The value with every read of a property reported, at any depth. */
function counted<T extends object>(value: T, read: () => void): T {
  const known = new WeakMap<object, object>();
  const wrap = <U extends object>(target: U): U =>
    new Proxy(target, {
      get(object, key) {
        read();
        const found: unknown = Reflect.get(object, key);
        if (typeof found !== "object" || found === null) return found;
        const wrapped = known.get(found) ?? wrap(found);
        known.set(found, wrapped);
        return wrapped;
      },
    });
  return wrap(value);
}

test("planning what is settled reads Azure's resources in proportion to the number of Services", () => {
  const [few, many] = [settled(40, 3), settled(160, 3)];
  expect(plan(many.intents, many.observed, single).stages).toEqual([]);
  const factor = readsOf(many.intents, many.observed).azure / readsOf(few.intents, few.observed).azure;
  expect(factor).toBeLessThan(4.5);
});

test("planning what is settled on several load balancers reads Azure's resources in proportion to the number of Services", () => {
  const reads = (services: number, balancers: number): number => {
    const { intents, observed, config } = settled(services, 16, several(balancers));
    expect(plan(intents, observed, config).stages).toEqual([]);
    return readsOf(intents, observed, config).azure;
  };
  const [few, many, spread] = [reads(40, 4), reads(160, 4), reads(160, 16)];
  expect(many / few).toBeLessThan(3.8);
  expect(spread / many).toBeLessThan(2);
});

test("planning more Services with the same nodes reads the nodes no more often", () => {
  const [few, many] = [settled(10, 50), settled(40, 50)];
  expect(readsOf(many.intents, many.observed).nodes).toBe(readsOf(few.intents, few.observed).nodes);
});

test("planning more new Services does not search Azure's resources for each of them", () => {
  const { observed } = settled(100, 3);
  const added = Array.from({ length: 80 }, (_, index) =>
    intentOf({ name: `new-${index}`, uid: `new${index}`, nodes: observed.nodes, annotations: internal }),
  );
  const reads = (count: number): number => readsOf(added.slice(0, count), observed).azure;
  expect(reads(80) - reads(40)).toBeLessThan(40 * 100);
});

test("planning Services that share an additional address reads the security rules in proportion to their service tags", () => {
  const reads = (tags: number): number => {
    const annotations = { "azure-additional-public-ips": "198.51.100.8", "azure-allowed-service-tags": tagsOf(tags) };
    const intents = ["a", "b"].map((name) => intentOf({ name, annotations }));
    const { observed } = converge(intents, world({ services: intents.map(({ service }) => service) }), single);
    let count = 0;
    const securityGroup = observed.securityGroup && counted(observed.securityGroup, () => (count += 1));
    expect(plan(intents, { ...observed, securityGroup }, single).stages).toEqual([]);
    return count;
  };
  expect(reads(80) / reads(20)).toBeLessThan(5);
});
