import { expect, test } from "bun:test";

import type { Service } from "cloud-controller-host/sdk";

import { clusters } from "../clusters.ts";
import { azureRig, type Named, named, rule } from "./azure-rig.ts";
import { isHeld, isRefused } from "./refusals.ts";

const { idOf, putBalancer, putPublicIP, simulator, view } = await azureRig();
const web = named("web", "1");
const other = named("other", "2");

type Wish = Readonly<{ ports?: readonly number[]; protocol?: string; type?: string; loadBalancerIP?: string }>;

/** The Service with other ports, and annotations of Azure. */
function asking(
  { service }: Named,
  { ports = [80], protocol, ...spec }: Wish = {},
  annotations: Readonly<Record<string, string>> = {},
): Service {
  const keys = Object.entries(annotations).map(([key, value]) => [`service.beta.kubernetes.io/${key}`, value]);
  return {
    ...service,
    metadata: { ...service.metadata, annotations: Object.fromEntries(keys) },
    spec: { ...service.spec, ...spec, ports: ports.map((port) => ({ port, ...(protocol && { protocol }) })) },
  };
}

interface Setup {
  readonly others?: readonly Service[];
  readonly forgiven?: readonly Service[];
  readonly sharesAddresses?: boolean;
}

/** Two answers: `isRefused`, and `isHeld`. */
function judge(service: Service, { others = [], forgiven = [], sharesAddresses = true }: Setup = {}) {
  const world = {
    cluster: { ...clusters.plain, sharesAddresses },
    services: () => [service, ...others],
    forgiven,
    view,
  };
  return [isRefused(world, service), isHeld(world, service)];
}

const free = [false, false];
const heldFor = [true, true];
/** Another Service has what it no longer wants. */
const briefly = [true, false];

const byName = { "azure-pip-name": "shared" };
const inner = { "azure-load-balancer-internal": "true", "azure-load-balancer-ipv4": "10.240.250.100" };

/** The other Service has a port of a public IP that is shared. */
function share(protocol?: string): string {
  const address = putPublicIP("shared");
  putBalancer({ frontends: [[other.base, "shared"]], rules: [rule(other.base, other.base, 80, protocol)] });
  return address;
}

test("a Service with an invalid setting is refused wherever it is", () => {
  const service = asking(web, {}, { "azure-load-balancer-tcp-idle-timeout": "1" });
  expect(judge(service, { sharesAddresses: false })).toEqual(heldFor);
  expect(judge(asking(web, {}, { "azure-load-balancer-tcp-idle-timeout": "10" }))).toEqual(free);
});

test("a Service is refused for another name of its private link service, and not for that of another one", () => {
  putBalancer({ frontends: [[web.base, "10.240.0.100"]] }, "kubernetes-internal");
  const id = `${idOf("loadBalancers", "kubernetes-internal")}/frontendIPConfigurations/${web.base}`;
  const properties = { loadBalancerFrontendIpConfigurations: [{ id }] };
  simulator.put(idOf("privateLinkServices", "link-a"), { properties });
  const linked = (name: string) => ({ ...inner, "azure-pls-create": "true", "azure-pls-name": name });
  expect(judge(asking(web, {}, linked("link-b")), { sharesAddresses: false })).toEqual(heldFor);
  expect(judge(asking(web, {}, linked("link-a")))).toEqual(free);
  expect(judge(asking(other, {}, linked("link-b")))).toEqual(free);
  expect(judge(asking(web, {}, { ...linked("link-b"), "azure-pls-create": "false" }))).toEqual(free);
  expect(judge(asking(web, { type: "ClusterIP" }, linked("link-b")))).toEqual(free);
});

test("a Service is refused for a port of another one on its address, and only where Services share addresses", () => {
  share();
  const others = [asking(other, {}, byName)];
  expect(judge(asking(web, {}, byName), { others })).toEqual(heldFor);
  expect(judge(asking(web, {}, byName), { others, sharesAddresses: false })).toEqual(free);
  expect(judge(asking(web, { type: "ClusterIP" }, byName), { others })).toEqual(free);
  expect(judge(asking(web, { ports: [443] }, byName), { others })).toEqual(free);
  expect(judge(asking(web, { ports: [443, 80] }, byName), { others })).toEqual(heldFor);
  expect(judge(asking(web, { protocol: "UDP" }, byName), { others })).toEqual(free);
  share("Udp");
  expect(
    judge(asking(web, { protocol: "UDP" }, byName), { others: [asking(other, { protocol: "UDP" }, byName)] }),
  ).toEqual(heldFor);
});

test("a Service is refused for an address that another one has, in its spec or an annotation, and for one that none has", () => {
  const address = share();
  const others = [asking(other, {}, byName)];
  for (const given of [address, "192.0.2.1"]) {
    expect(judge(asking(web, { loadBalancerIP: given }), { others })).toEqual(heldFor);
    expect(judge(asking(web, {}, { "azure-load-balancer-ipv4": given }), { others })).toEqual(heldFor);
  }
  expect(judge(asking(web, { ports: [443], loadBalancerIP: address }), { others })).toEqual(free);
  expect(judge(asking(web, {}, inner), { others })).toEqual(free);
});

test("a Service is refused only briefly for a port or an address that the other one no longer wants", () => {
  share();
  const service = asking(web, {}, byName);
  expect(judge(service, { others: [asking(other, { ports: [443] }, byName)] })).toEqual(briefly);
  expect(judge(service, { others: [asking(other)] })).toEqual(briefly);
  expect(judge(service, { others: [asking(other, { loadBalancerIP: "192.0.2.1" })] })).toEqual(briefly);
});

test("a rule stays in the way of a Service when its own is abandoned, and not when that is gone or its own", () => {
  share();
  const service = asking(web, {}, byName);
  expect(judge(service)).toEqual(free);
  expect(judge(service, { others: [asking(other, { type: "ClusterIP" }, byName)] })).toEqual(free);
  expect(judge(service, { forgiven: [asking(other, {}, byName)] })).toEqual(heldFor);
  expect(judge(asking(other, {}, byName))).toEqual(free);
});

test("internal Services are refused for ports of an internal address, on the internal load balancer", () => {
  putBalancer(
    { frontends: [[other.base, "10.240.250.100"]], rules: [rule(other.base, other.base)] },
    "kubernetes-internal",
  );
  const others = [asking(other, {}, inner)];
  expect(judge(asking(web, {}, inner), { others })).toEqual(heldFor);
  expect(judge(asking(web, { ports: [443] }, inner), { others })).toEqual(free);
  expect(judge(asking(web), { others })).toEqual(free);
});

test.each([false, true])(
  "a Service without an address of its choice has its own frontend (internal: %p)",
  (isInternal) => {
    const annotations = isInternal ? { "azure-load-balancer-internal": "true" } : {};
    putPublicIP(`kubernetes-${web.base}`);
    putBalancer(
      {
        frontends: [[web.base, isInternal ? "10.240.0.100" : `kubernetes-${web.base}`]],
        rules: [rule(other.base, web.base)],
      },
      isInternal ? "kubernetes-internal" : "kubernetes",
    );
    const others = [asking(other, {}, annotations)];
    expect(judge(asking(web, { ports: [443] }, annotations), { others })).toEqual(free);
    expect(judge(asking(web, {}, annotations), { others })).toEqual(briefly);
  },
);

test("a Service cannot have another address while others use its frontend", () => {
  putPublicIP("shared");
  putPublicIP("theirs");
  putBalancer({ frontends: [[web.base, "theirs"]], rules: [rule(other.base, web.base)] });
  const others = [asking(other, {}, { "azure-pip-name": "theirs" })];
  const service = asking(web, { ports: [443] }, byName);
  expect(judge(service, { others })).toEqual(heldFor);
  putBalancer({ frontends: [[other.base, "theirs"]], rules: [rule(other.base, other.base)] });
  expect(judge(service, { others })).toEqual(free);
  putBalancer({ frontends: [[web.base, "theirs"]], rules: [rule(web.base, web.base)] });
  expect(judge(service, { others })).toEqual(free);
});

test("ports of other addresses refuse no Service", () => {
  const address = putPublicIP("shared");
  putPublicIP("theirs");
  putBalancer({
    frontends: [
      [web.base, "shared"],
      [other.base, "theirs"],
    ],
    rules: [rule(other.base, other.base)],
  });
  const others = [asking(other, {}, { "azure-pip-name": "theirs" })];
  expect(judge(asking(web, {}, byName), { others })).toEqual(free);
  expect(judge(asking(web, { loadBalancerIP: address }), { others })).toEqual(free);
});
