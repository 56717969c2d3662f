import { describe, expect, test } from "bun:test";

import {
  choosesAddress,
  readSubject,
  wantedAddress,
  wantedAddresses,
  wantedPublicIP,
} from "../../../../../plugins/azure-cloud/load-balancer/service/subject.ts";
import { intentOf, plannerConfigOf, type ServiceShape } from "../fixtures.ts";

const config = plannerConfigOf();
const subjectOf = (shape: ServiceShape) => readSubject(intentOf(shape).service, config).subject;

describe("the address that a Service asks for", () => {
  const ipv4 = { "azure-load-balancer-ipv4": "20.0.0.4" };

  test("is that of the spec, for its own family", () => {
    const subject = subjectOf({ spec: { loadBalancerIP: "20.0.0.5" } });
    expect(wantedAddresses(subject)).toEqual(["20.0.0.5"]);
    expect([wantedAddress(subject, "IPv4"), wantedAddress(subject, "IPv6")]).toEqual(["20.0.0.5", ""]);
  });

  test("is that of the annotation alone where both are given", () => {
    const subject = subjectOf({ annotations: ipv4, spec: { loadBalancerIP: "20.0.0.5" } });
    expect(wantedAddresses(subject)).toEqual(["20.0.0.4"]);
    expect(wantedAddress(subject, "IPv4")).toBe("20.0.0.4");
  });

  test("is chosen with an address or a public IP, and with nothing else", () => {
    expect(
      [{ annotations: ipv4 }, { annotations: { "azure-pip-name": "mine" } }, {}].map(subjectOf).map(choosesAddress),
    ).toEqual([true, true, false]);
  });
});

test("the public IP of an IPv6 Service is that of either annotation, and one of each for both families", () => {
  const names = { "azure-pip-name": "v4", "azure-pip-name-ipv6": "v6" };
  const namesFor = (families: readonly ("IPv4" | "IPv6")[], annotations: Readonly<Record<string, string>>) => {
    const subject = subjectOf({ annotations, spec: { ipFamilies: [...families] } });
    return [wantedPublicIP(subject, "IPv4"), wantedPublicIP(subject, "IPv6")];
  };
  expect(namesFor(["IPv4", "IPv6"], names)).toEqual(["v4", "v6"]);
  expect(namesFor(["IPv4"], names)).toEqual(["v4", ""]);
  expect(namesFor(["IPv6"], names)).toEqual(["", "v6"]);
  expect(namesFor(["IPv6"], { "azure-pip-name": "v4" })).toEqual(["", "v4"]);
});

test("the resource group of a Service's public IPs is compared in lower case, and is the cluster's without the annotation", () => {
  const annotations = { "azure-load-balancer-resource-group": "My-Group" };
  expect([subjectOf({ annotations }).publicIPGroup, subjectOf({}).publicIPGroup]).toEqual(["my-group", "rg0"]);
});

test("a subnet is that of an internal Service, in lower case alone", () => {
  const inside = (internal: string) => {
    const { subnet, internal: isInternal } = subjectOf({
      annotations: { "azure-load-balancer-internal": internal, "azure-load-balancer-internal-subnet": "inside" },
    });
    return [isInternal, subnet];
  };
  expect([inside("true"), inside("TRUE")]).toEqual([
    [true, "inside"],
    [false, undefined],
  ]);
});
