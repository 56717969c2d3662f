import { describe, expect, test } from "bun:test";

import type { Observed } from "../../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import { plan } from "../../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { intentOf, plannerConfigOf } from "../../fixtures.ts";
import { converge, nodesNamed, publicIP, usersBalancer, world } from "../../world.ts";

const nodes = nodesNamed("node-0");
const vmSets = new Map([["node-0", "vmss0"]]);
const key = "azure-load-balancer-gateway-frontend-id";
const gateway =
  "/subscriptions/sub0/resourceGroups/rg9/providers/Microsoft.Network/loadBalancers/gw/frontendIPConfigurations/f";
const standard = plannerConfigOf();

/** The Gateway Load Balancer of the Service's frontend after each of its versions in turn. */
function chainAfter(versions: readonly Readonly<Record<string, string>>[], config = standard): string | undefined {
  let observed = world({ nodes, vmSets });
  for (const annotations of versions)
    observed = converge([intentOf({ nodes, annotations })], observed, config).observed;
  return observed.loadBalancers[0]?.frontendIPConfigurations?.[0]?.gatewayLoadBalancer?.id;
}

/** A Service with a port on an address that it shares with others. */
const sharing = (name: string, port: number, annotations: Readonly<Record<string, string>> = {}) =>
  intentOf({
    name,
    nodes,
    annotations: { "azure-load-balancer-ipv4": "20.9.9.9", ...annotations },
    spec: { ports: [{ protocol: "TCP", port, nodePort: 30_000 + port }] },
  });

describe("the frontend of a Service", () => {
  test("is chained to the Gateway Load Balancer that the Service names, at once and later", () => {
    expect(chainAfter([{ [key]: gateway }])).toBe(gateway);
    expect(chainAfter([{}, { [key]: gateway }])).toBe(gateway);
  });

  test("loses its Gateway Load Balancer with an empty value, and keeps it without the annotation", () => {
    expect(chainAfter([{ [key]: gateway }, { [key]: "" }])).toBeUndefined();
    expect(chainAfter([{ [key]: gateway }, {}])).toBe(gateway);
  });

  test("is chained by its own Service alone, and by none that shares it", () => {
    const intents = [sharing("a-owner", 80), sharing("b-sharer", 443, { [key]: gateway })];
    const { loadBalancers } = converge(intents, world({ nodes, vmSets }), standard).observed;
    const frontends = loadBalancers.flatMap(({ frontendIPConfigurations = [] }) => frontendIPConfigurations);
    expect(frontends.map(({ gatewayLoadBalancer }) => gatewayLoadBalancer)).toEqual([undefined]);
  });

  test("is chained to no Gateway Load Balancer if it is internal or basic", () => {
    expect(chainAfter([{ [key]: gateway, "azure-load-balancer-internal": "true" }])).toBeUndefined();
    expect(chainAfter([{ [key]: gateway }], plannerConfigOf({ loadBalancerSku: "basic" }))).toBeUndefined();
  });
});

test("a private frontend that is replaced keeps its zones while those of the region cannot be read", () => {
  const inside = (subnet: string) =>
    intentOf({
      nodes,
      annotations: { "azure-load-balancer-internal": "true", "azure-load-balancer-internal-subnet": subnet },
    });
  const before = converge([inside("subnet0")], world({ nodes, vmSets }), standard).observed;
  const unread = { ...before, zones: [], zonesError: new Error("throttled") };
  const { results, stages } = plan([inside("lb-subnet")], unread, standard);
  expect(results.get("default/web")).not.toContainKey("problem");
  const [write] = stages.flatMap(({ writes }) => writes.filter(({ kind }) => kind === "put-load-balancer"));
  const [frontend] = (write?.kind === "put-load-balancer" ? write.body.frontendIPConfigurations : undefined) ?? [];
  expect([frontend?.subnet?.name, frontend?.zones]).toEqual(["lb-subnet", ["1", "2", "3"]]);
});

test.each([
  ["has not changed", {}, []],
  ["changes itself", { "azure-load-balancer-tcp-idle-timeout": "10" }, ["load-balancers"]],
])(
  "an older Service that asks for a port of a shared address is refused and its former port stays open, and not the one that has it and %s",
  (_, change, written) => {
    const before = [sharing("a-older", 80), sharing("b-newer", 443)];
    const { observed } = converge(before, world({ nodes, vmSets }), standard);
    const after = [sharing("a-older", 443), sharing("b-newer", 443, change)];
    const services = after.map(({ service }) => service);
    const { results, stages } = plan(after, { ...observed, services }, standard);
    expect(results.get("default/a-older")?.problem?.code).toBe("PortConflict");
    expect(results.get("default/b-newer")).not.toContainKey("problem");
    expect<readonly string[]>(stages.map(({ name }) => name)).toEqual(written);
  },
);

describe("a public IP that is a Service's own, and whose address an older Service chooses", () => {
  const uids = { chooser: "c".repeat(32), owner: "e".repeat(32) };
  const [chooser, owner] = [`a${uids.chooser.slice(1)}`, `a${uids.owner.slice(1)}`];
  const ownIP = publicIP(`kubernetes-${owner}`, "20.9.9.9", { tags: { "k8s-azure-service": "default/owner" } });
  const usersIPs = [publicIP("first", "20.0.0.8"), publicIP("second", "20.0.0.9")];
  const start = world({ nodes, vmSets, publicIPs: [ownIP, ...usersIPs] });
  const shape = (name: keyof typeof uids, port: number, address = "") =>
    intentOf({
      name,
      uid: uids[name],
      nodes,
      ...(address !== "" && { annotations: { "azure-load-balancer-ipv4": address } }),
      spec: { ports: [{ protocol: "TCP", port, nodePort: 30_000 + port }] },
    });
  const [chooses, owns] = [shape("chooser", 80, "20.9.9.9"), shape("owner", 443)];
  /** Names of frontends and rules with the public IP that they are on. */
  const partsOf = ({ loadBalancers }: Observed) =>
    loadBalancers.flatMap(({ frontendIPConfigurations = [], loadBalancingRules = [] }) => {
      const publicIPs = new Map(
        frontendIPConfigurations.map(({ id, publicIPAddress }) => [id, publicIPAddress?.id?.split("/").at(-1)]),
      );
      return [
        ...frontendIPConfigurations.map(({ id, name }) => `${name} ${publicIPs.get(id)}`),
        ...loadBalancingRules.map(({ name, frontendIPConfiguration }) =>
          [name, publicIPs.get(frontendIPConfiguration?.id)].join(" "),
        ),
      ];
    });
  const on = (...names: readonly string[]) => names.map((name) => `${name} ${ownIP.name}`);

  test("is that of the owner's frontend if both are planned together: the chooser can leave again", () => {
    const { observed, last } = converge([chooses, owns], start, standard);
    expect(partsOf(observed)).toEqual(on(owner, `${chooser}-TCP-80`, `${owner}-TCP-443`));
    expect(last.results.values().every(({ status }) => status?.ingress?.[0]?.ip === "20.9.9.9")).toBe(true);
    const left = converge([shape("chooser", 80, "20.0.0.8"), owns], observed, standard).observed;
    expect(partsOf(left).toSorted()).toEqual(
      [`${chooser} first`, `${chooser}-TCP-80 first`, ...on(owner, `${owner}-TCP-443`)].toSorted(),
    );
  });

  test("stays on the chooser's frontend if that was there first: the owner shares it, until both are gone", () => {
    const alone = converge([chooses], start, standard).observed;
    expect(partsOf(alone)).toEqual(on(chooser, `${chooser}-TCP-80`));
    const { observed, last } = converge([chooses, owns], alone, standard);
    expect(partsOf(observed)).toEqual(on(chooser, `${chooser}-TCP-80`, `${owner}-TCP-443`));
    expect(last.results.get("default/owner")?.status?.ingress).toEqual([{ ip: "20.9.9.9" }]);
    const without = converge([{ ...chooses, action: "delete" }, owns], observed, standard).observed;
    expect(partsOf(without)).toEqual(on(chooser, `${owner}-TCP-443`));
    const none = converge([{ ...owns, action: "delete" }], without, standard).observed;
    expect([none.loadBalancers, none.publicIPs.map(({ name }) => name)]).toEqual([[], ["first", "second"]]);
  });

  test("is not that of a frontend that a user has made with it", () => {
    const theirs = usersBalancer("kubernetes");
    const loadBalancers = [
      {
        ...theirs,
        frontendIPConfigurations: (theirs.frontendIPConfigurations ?? []).map((one) => ({
          ...one,
          publicIPAddress: { id: ownIP.id ?? "" },
        })),
      },
    ];
    const { observed } = converge([owns], { ...start, loadBalancers }, standard);
    expect(partsOf(observed)).toContain(`${owner} ${ownIP.name}`);
  });
});
