import { expect, test } from "bun:test";

import { addressSource } from "../../../../plugins/azure-cloud/load-balancer/explain-settings.ts";
import { readSubject } from "../../../../plugins/azure-cloud/load-balancer/service/subject.ts";
import { intentOf, plannerConfigOf, type ServiceShape } from "./fixtures.ts";

const sourceOf = (address: string, shape: ServiceShape): string =>
  addressSource(readSubject(intentOf(shape).service, plannerConfigOf()).subject, address);

test("an address was chosen by the annotation of its family, by both, by the spec, or by Azure", () => {
  const ipv4 = { "azure-load-balancer-ipv4": "20.0.0.1" };
  const ipv6 = { "azure-load-balancer-ipv6": "2603:1030::1" };
  expect(sourceOf("20.0.0.1", { annotations: ipv4 })).toBe("annotation azure-load-balancer-ipv4");
  expect(sourceOf("2603:1030::1", { annotations: ipv6 })).toBe("annotation azure-load-balancer-ipv6");
  expect(sourceOf("20.0.0.1", { annotations: { ...ipv4, ...ipv6 } })).toBe(
    "annotations azure-load-balancer-ipv4, azure-load-balancer-ipv6",
  );
  expect(sourceOf("20.0.0.1", { spec: { loadBalancerIP: "20.0.0.1" } })).toBe("spec.loadBalancerIP");
  expect(sourceOf("20.0.0.2", { annotations: ipv4 })).toBe("chosen by Azure");
});
