import { describe, expect, test } from "bun:test";

import { plan } from "../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { intentOf, plannerConfigOf } from "../fixtures.ts";
import { converge, nodesNamed, publicIP, world } from "../world.ts";

const config = plannerConfigOf();
const disabled = plannerConfigOf({ disableAdditionalPublicIPs: true });
const nodes = nodesNamed("node-0").map((node) => ({
  ...node,
  spec: { ...node.spec, podCIDR: "10.244.0.0/24", podCIDRs: ["10.244.0.0/24", "fd01::/64"] },
  status: { addresses: [...(node.status?.addresses ?? []), { type: "ExternalIP", address: "20.7.7.7" }] },
}));
const onlyPodCIDR = { metadata: { name: "node-1" }, spec: { podCIDR: "10.244.1.0/24" } };
const other = intentOf({ name: "other", spec: { clusterIPs: ["10.0.0.9", "fd02::9"] } }).service;
const start = world({ nodes: [...nodes, onlyPodCIDR], services: [other], publicIPs: [publicIP("mine", "20.9.9.9")] });
const asking = (addresses: string, ingress: readonly string[] = []) =>
  intentOf({ nodes, ingress, annotations: { "azure-pip-name": "mine", "azure-additional-public-ips": addresses } });

describe("an additional address", () => {
  test.each([
    ["of a node", "10.240.0.4"],
    ["of a node, outside of its network", "20.7.7.7"],
    ["of a node, of the other family", "fd00::4"],
    ["of a node, as IPv6", "::ffff:10.240.0.4"],
    ["of a Pod", "10.244.0.200"],
    ["of a Pod of the other family", "fd01::1:2"],
    ["of a Pod of a node with one range", "10.244.1.1"],
    ["of a Service", "10.0.0.9"],
    ["of a Service of the other family", "fd02::9"],
  ])("%s is refused, and the Service is not written", (_title, address) => {
    const { stages, results } = plan([asking(`198.51.100.8,${address}`)], start, config);
    expect([stages, results.get("default/web")?.problem?.messages]).toEqual([
      [],
      [expect.stringContaining(`azure-additional-public-ips: "${address}": addresses of the cluster are refused`)],
    ]);
  });

  test.each(["10.240.0.5", "10.244.2.1", "10.0.0.10", "fd01:0:0:1::1", "198.51.100.8"])(
    "beside those of the cluster is allowed: %s",
    (address) => {
      const { last, observed } = converge([asking(address)], start, config);
      expect(last.results.get("default/web")?.status?.ingress).toEqual([{ ip: "20.9.9.9" }, { ip: address }]);
      expect(JSON.stringify(observed.securityGroup)).toContain(address);
    },
  );

  test("is ignored with a warning where the cloud config disables it, and leaves the rules and the status", () => {
    const first = converge([asking("198.51.100.8")], start, config).observed;
    const again = asking("198.51.100.8", ["20.9.9.9", "198.51.100.8"]);
    const { last, observed } = converge([again], { ...first, services: [again.service] }, disabled);
    expect(JSON.stringify(observed.securityGroup)).not.toContain("198.51.100.8");
    expect(last.results.get("default/web")).toMatchObject({
      status: { ingress: [{ ip: "20.9.9.9" }] },
      warnings: [expect.stringContaining("azure-additional-public-ips has no effect: disableAdditionalPublicIPs")],
    });
  });

  test("an additional address of the cluster that is disabled in the cloud config does not refuse its Service", () => {
    expect(plan([asking("10.240.0.4")], start, disabled).results.get("default/web")?.problem).toBeUndefined();
  });
});
