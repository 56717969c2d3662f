import { expect, test } from "bun:test";

import type { Service } from "cloud-controller-host/sdk";

import { azureRig, named, rule } from "./azure-rig.ts";
import { leftOpenings, leftoversIn, leftPools } from "./leftovers.ts";

const { simulator, idOf, putBalancer, putPublicIP, putRules, view } = await azureRig([
  { name: "vm-0", privateIP: "10.240.0.4" },
]);
const web = named("web", "1");
const other = named("other", "2");
const withoutFloatingIP = { "service.beta.kubernetes.io/azure-disable-load-balancer-floating-ip": "true" };

const left = (...wanting: readonly { readonly service: Service }[]): readonly string[] =>
  leftoversIn(
    view(),
    wanting.map(({ service }) => service),
  );

/** All that a Service has; returns its address. */
function serve({ base }: typeof web): string {
  const address = putPublicIP(`kubernetes-${base}`, "default/web");
  putBalancer({
    frontends: [[base, `kubernetes-${base}`]],
    rules: [rule(base, base)],
    probes: [`${base}-TCP-80`],
  });
  putRules({ to: [address] });
  return address;
}

test("nothing of a Service that wants a load balancer is left over, and all of it is once it does not", () => {
  serve(web);
  expect(left(web)).toEqual([]);
  expect(left(other).toSorted()).toEqual([
    `kubernetes/frontendIPConfigurations/${web.base}`,
    `kubernetes/loadBalancingRules/${web.base}-TCP-80`,
    `kubernetes/probes/${web.base}-TCP-80`,
    `public IP kubernetes-${web.base}`,
    "security rule k8s-azure-lb_allow_0",
  ]);
});

test("a frontend under the name of a Service that is gone stays while a rule of another one is on it", () => {
  putPublicIP("shared", "default/other");
  const frontends = [[web.base, "shared"]] as const;
  putBalancer({ frontends, rules: [rule(other.base, web.base)] });
  expect(left(other)).toEqual([]);
  putBalancer({ frontends, rules: [rule(web.base, web.base)] });
  expect(left(other)).toEqual([
    `kubernetes/frontendIPConfigurations/${web.base}`,
    `kubernetes/loadBalancingRules/${web.base}-TCP-80`,
  ]);
});

test("a frontend that another writer has named is never left over", () => {
  putPublicIP("theirs");
  putBalancer({ frontends: [["outbound", "theirs"]] });
  expect(left()).toEqual([]);
});

test.each<readonly [what: string, name: string, owners: string | undefined, isLeft: boolean]>([
  ["tagged for a Service is not left over", "any", "default/web", false],
  ["tagged for a Service and for one that is gone is left over", "any", "default/web,default/gone", true],
  ["tagged for the start of a Service's name is left over", "any", "default/we", true],
  ["with the name of a Service and no tag is not left over", `kubernetes-${web.base}`, undefined, false],
  ["with the name of a Service that is gone and no tag is left over", `kubernetes-${other.base}`, undefined, true],
  ["of another writer is not left over", "theirs", undefined, false],
])("a public IP %s", (_what, name, owners, isLeft) => {
  putPublicIP(name, owners);
  expect(left(web)).toEqual(isLeft ? [`public IP ${name}`] : []);
});

test("a pool of one Service is left over when no rule uses it, and that of the cluster never is", () => {
  const frontends = [[web.base, "10.240.0.100"]] as const;
  putBalancer({ frontends, rules: [rule(web.base, web.base)], pool: "default-web" });
  expect(leftPools(view())).toEqual([]);
  putBalancer({ frontends, pool: "default-web" });
  expect(leftPools(view())).toEqual(["kubernetes/backendAddressPools/default-web"]);
  putBalancer({ frontends });
  expect(leftPools(view())).toEqual([]);
});

test("a private link service is left over when the Service in its tag is gone, and another writer's never is", () => {
  for (const [name, tags] of [
    ["ours", { "k8s-azure-owner-service": "default/web" }],
    ["theirs", {}],
  ] as const)
    simulator.put(idOf("privateLinkServices", name), { tags, properties: {} });
  expect(left(web)).toEqual([]);
  expect(left(other)).toEqual(["private link service ours"]);
});

test("a security rule of ours is left over with a single address that no Service has", () => {
  const address = serve(web);
  putRules({ to: [address, "192.0.2.1"] }, { to: [address] }, { name: "theirs", to: ["192.0.2.1"] });
  expect(left(web)).toEqual(["security rule k8s-azure-lb_allow_0"]);
});

test("a security rule stays for the private address of an internal Service", () => {
  putBalancer({ frontends: [[web.base, "10.240.0.100"]], rules: [rule(web.base, web.base)] }, "kubernetes-internal");
  putRules({ to: ["10.240.0.100"] });
  expect(left(web)).toEqual([]);
});

test("a security rule may name an address that a Service shows: one that is refused keeps it", () => {
  putRules({ to: ["192.0.2.1"] });
  const showing = { ...web.service, status: { loadBalancer: { ingress: [{ ip: "192.0.2.1" }] } } };
  expect(leftoversIn(view(), [showing])).toEqual([]);
  expect(leftoversIn(view(), [web.service])).toHaveLength(1);
});

test("a security rule may name service tags and additional addresses of a Service", () => {
  serve(web);
  putRules({ to: ["VirtualNetwork"] }, { to: ["192.0.2.1", "192.0.2.2"] });
  expect(left(web)).toEqual(["security rule k8s-azure-lb_allow_1"]);
  const annotations = { "service.beta.kubernetes.io/azure-additional-public-ips": "192.0.2.1,192.0.2.2" };
  const { metadata, ...rest } = web.service;
  expect(left({ service: { ...rest, metadata: { ...metadata, annotations } } })).toEqual([]);
});

test("a security rule stays for the public IP of a Service that is refused and has no frontend", () => {
  putRules({ to: [putPublicIP(`kubernetes-${web.base}`, "default/web")] });
  expect(left(web)).toEqual([]);
  expect(left(other)).toEqual([`public IP kubernetes-${web.base}`, "security rule k8s-azure-lb_allow_0"]);
});

test("an opening of an address is left over if no Service with the address asks for its port or has a rule of it", () => {
  const address = serve(web);
  putRules({ to: [address], ports: ["80", "443"] }, { to: ["192.0.2.1"], ports: ["22"] });
  const expected = [`opening TCP 443 from Internet of ${address} is left over`];
  expect(leftOpenings(view(), [web.service])).toEqual(expected);
  const asking = (protocol: string): Service => ({
    ...web.service,
    spec: { ...web.service.spec, ports: [{ port: 443, protocol }] },
  });
  // It still has the load-balancing rule of port 80.
  expect(leftOpenings(view(), [asking("TCP")])).toEqual([]);
  expect(leftOpenings(view(), [asking("UDP")])).toEqual(expected);
  // A Service without its finalizer may have left it.
  expect(leftOpenings(view(), [web.service], [asking("TCP")])).toEqual([]);
  expect(leftOpenings(view(), [web.service], [asking("UDP")])).toEqual(expected);
  expect(leftOpenings(view(), [other.service])).toEqual([]);
});

test("an opening stays for a rule of a Service with another address as well, and is left over without one there", () => {
  const address = serve(web);
  putBalancer(
    { frontends: [[web.base, "10.240.0.100"]], rules: [rule(web.base, web.base, 443)] },
    "kubernetes-internal",
  );
  putRules({ to: [address, "10.240.0.100"], ports: ["80", "443"] });
  const asking: Service = { ...web.service, spec: { ...web.service.spec, ports: [{ port: 22 }] } };
  expect(leftOpenings(view(), [asking])).toEqual([
    `opening TCP 443 from Internet of ${address} is left over`,
    "opening TCP 80 from Internet of 10.240.0.100 is left over",
  ]);
});

test.each<
  readonly [what: string, annotations: Service["metadata"], ruled: typeof web, direct: boolean, isLeft: boolean]
>([
  ["is left over where all have floating IP", {}, web, false, true],
  ["stays for a Service that asks for none", { annotations: withoutFloatingIP }, web, false, false],
  ["stays for a Service with a rule without it", {}, web, true, false],
  ["is left over where only another one has such a rule", {}, other, true, true],
])("what is open on a node %s", (_what, metadata, ruled, direct, isLeft) => {
  const service = { ...web.service, metadata: { ...web.service.metadata, ...metadata } };
  serve(web);
  putBalancer({
    frontends: [[web.base, `kubernetes-${web.base}`]],
    rules: [{ ...rule(ruled.base, web.base), enableFloatingIP: !direct }],
  });
  putRules({ to: ["10.240.0.4"], ports: ["30080"] });
  const rules = left({ service }).filter((what) => what.startsWith("security rule"));
  expect(rules).toEqual(isLeft ? ["security rule k8s-azure-lb_allow_0"] : []);
});
