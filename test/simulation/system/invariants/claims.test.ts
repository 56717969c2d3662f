import { afterEach, beforeEach, expect, test } from "bun:test";

import { annotations, kinds } from "cloud-controller-host/sdk";

import { type Deployment, leaseNames, type PairName } from "../deployments.ts";
import { Claims } from "./claims.ts";
import { ClusterRig } from "./cluster-rig.ts";

let rig: ClusterRig;
beforeEach(async () => void (rig = await ClusterRig.start()));
afterEach(() => rig[Symbol.asyncDispose]());

const web = "/api/v1/namespaces/default/services/web";

function claims(pair: PairName, leading: readonly Deployment[] = ["first", "second"], sharesAddresses = false) {
  const found: string[] = [];
  const world = {
    api: rig.api,
    get now() {
      return rig.now;
    },
    abandoned: [],
    cluster: { sharesAddresses },
    services: () => rig.services(),
    history: { second: { pair, hosts: 1 } },
  };
  const watched = new Claims(
    world,
    (name) => leading.includes(name),
    (_invariant, text) => void found.push(text),
  );
  const send = (deployment: Deployment, path: string, isWrite = true, body = ""): void =>
    watched.sent({ host: { index: 0, deployment }, isWrite, exchange: { method: "PATCH", path, body } });
  return { found, send };
}

const mark = (name: string, by: Deployment): void =>
  void rig.api.update(kinds.Service, { namespace: "default", name }, (now) => ({
    ...now,
    metadata: { ...now.metadata, annotations: { [annotations.servedBy]: leaseNames[by] } },
  }));

test("a deployment may write a Service with its mark or none, and not one that another one has marked, nor its public IP", () => {
  const { found, send } = claims("label");
  const { base } = rig.addService("web");
  send("second", `${web}/status`);
  mark("web", "first");
  send("first", web);
  send("second", `${web}2`);
  send("second", web, false);
  expect(found).toEqual([]);
  send("second", `${web}/status?fieldManager=x`);
  send(
    "second",
    `/subscriptions/s/providers/Microsoft.Network/publicIPAddresses/kubernetes-${base}-IPv6?api-version=1`,
  );
  expect(found).toHaveLength(2);
});

test("a write on a version of the Service that is out of date is refused, and breaks nothing", () => {
  const { found, send } = claims("label");
  rig.addService("web");
  const version = (): string => `{"metadata":{"resourceVersion":"${rig.services()[0]?.metadata?.resourceVersion}"}}`;
  const before = version();
  mark("web", "first");
  send("second", `${web}/status`, true, before);
  expect(found).toEqual([]);
  send("second", `${web}/status`, true, version());
  expect(found).toHaveLength(1);
});

test("a Service of a deployment that no longer leads may be taken over", () => {
  const { found, send } = claims("label", ["second"]);
  rig.addService("web");
  mark("web", "first");
  send("second", web);
  expect(found).toEqual([]);
});

test("a deployment that marks no Service ends within minutes what it does for one that another one has marked", () => {
  const { found, send } = claims("class");
  rig.addService("web");
  mark("web", "second");
  rig.now = 2 * 60_000;
  send("first", web);
  expect(found).toEqual([]);
  rig.now = 4 * 60_000;
  send("first", web);
  expect(found).toHaveLength(1);
});

test("a write for a Service that had the name before, and a public IP that Services share, are no claim to the Service", () => {
  const { found, send } = claims("label", undefined, true);
  const { service, base } = rig.addService("web");
  mark("web", "first");
  send("second", `${web}/status`, true, JSON.stringify({ metadata: { uid: "former" } }));
  send("second", `/subscriptions/s/providers/Microsoft.Network/publicIPAddresses/kubernetes-${base}`);
  expect(found).toEqual([]);
  send("second", `${web}/status`, true, JSON.stringify({ metadata: { uid: service.metadata?.uid } }));
  expect(found).toHaveLength(1);
});
