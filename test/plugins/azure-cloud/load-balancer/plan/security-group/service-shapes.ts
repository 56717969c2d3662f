import { accessOf } from "../../../../../../plugins/azure-cloud/load-balancer/plan/security-group/access.ts";
import { readSubject } from "../../../../../../plugins/azure-cloud/load-balancer/service/subject.ts";
import { intentOf, plannerConfigOf, type ServiceShape } from "../../fixtures.ts";

export const config = plannerConfigOf();

/** Ports of both protocols. */
export const both = [
  { name: "tcp", protocol: "TCP", port: 80, nodePort: 30_080 },
  { name: "udp", protocol: "UDP", port: 53, nodePort: 30_053 },
];

/** A dual-stack Service with the public IPs `v4` and `v6`. */
export const dualShape = (
  annotations: Readonly<Record<string, string>> = {},
  spec: ServiceShape["spec"] = {},
): ServiceShape => ({
  annotations: { "azure-pip-name": "v4", "azure-pip-name-ipv6": "v6", ...annotations },
  spec: { ports: both, ipFamilies: ["IPv4", "IPv6"], ...spec },
});

export const accessFor = (shape: ServiceShape) => accessOf(readSubject(intentOf(shape).service, config).subject);
