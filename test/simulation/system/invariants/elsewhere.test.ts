import { afterAll, beforeEach, expect, test } from "bun:test";

import { annotations, defaultLoadBalancerName, kinds, type Service } from "cloud-controller-host/sdk";

import { balancedService } from "../../../kit/services.ts";
import { theirAddress } from "../actions/theirs.ts";
import type { Named } from "./azure-rig.ts";
import { ClusterRig } from "./cluster-rig.ts";
import { Elsewhere } from "./elsewhere.ts";

const spec = { loadBalancerClass: "example.com/theirs" };
const at = { namespace: "default", name: "web" };
const rig = await ClusterRig.start();
afterAll(() => rig[Symbol.asyncDispose]());

let found: string[] = [];
const elsewhere = new Elsewhere(rig, (invariant, detail) => void found.push(`${invariant}: ${detail}`));
beforeEach(() => {
  found = [];
  if (rig.services().length > 0) rig.deleteService("web");
});

/** The product adds its finalizer to the Service. */
function takeOver(): void {
  rig.api.update(kinds.Service, at, ({ metadata, ...service }) => ({
    ...service,
    metadata: { ...metadata, finalizers: ["service.kubernetes.io/load-balancer-cleanup"] },
  }));
}
const release = (): void =>
  void rig.api.update(kinds.Service, at, ({ metadata, ...service }) => ({
    ...service,
    metadata: { ...metadata, finalizers: [] },
  }));
const look = ({ base }: Named): void => elsewhere.check({ resources: [{ name: `kubernetes-${base}` }] });
const retype = (change: Service["spec"]): void => rig.changeService("web", change);

function marked(): Named {
  const metadata = { ...at, annotations: { [annotations.servedBy]: "theirs" } };
  const service = rig.api.create(kinds.Service, { ...balancedService("web"), metadata });
  return { service, base: defaultLoadBalancerName(service) };
}

test.each<[string, () => Named]>([
  ["of another class", () => rig.addService("web", spec)],
  ["with the mark of another deployment", marked],
])("a Service %s gets no finalizer, and nothing in Azure", (_title, create) => {
  const named = create();
  expect(found).toEqual([]);
  takeOver();
  release();
  look(named);
  expect(found.map((one) => one.split(", which another controller serves, ")[1])).toEqual([
    "got service.kubernetes.io/load-balancer-cleanup",
    "has something in Azure",
  ]);
});

test("a Service of ours may have both, also once it is another controller's: the product has not seen that yet", () => {
  const named = rig.addService("web");
  takeOver();
  look(named);
  retype({ type: "ClusterIP" });
  retype({ type: "LoadBalancer", ...spec });
  look(named);
  release();
  expect(found).toEqual([]);
});

test("a Service keeps the address that another controller has given it, until it has another type", () => {
  rig.addService("web", spec);
  rig.showAddress("web", theirAddress);
  retype({ type: "ClusterIP" });
  retype({ type: "LoadBalancer", ...spec });
  expect(found).toEqual([]);
  rig.showAddress("web", theirAddress);
  rig.showAddress("web", "192.0.2.1");
  expect(found).toEqual(["others' property: default/web lost the address that another controller has given it"]);
});
