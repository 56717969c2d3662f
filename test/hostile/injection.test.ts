import { expect, setDefaultTimeout, test } from "bun:test";

import { kinds } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { SandboxLab } from "../host/sandbox-lab.ts";

setDefaultTimeout(120_000);

const forged = "E1121 00:00:00.000000       1 host] stopped leading";
const hostile = `x\n${forged}\u001b[2J\u2028\u0085${forged}`;
const prefix = "service.beta.kubernetes.io/azure";

test("text of a tenant's Service begins no line of the log, and has no control character in an event or a condition", async () => {
  await using lab = await SandboxLab.open();
  const { log } = await lab.host(["--controllers=service-lb-controller", "--v=6"]);
  const annotations = {
    [`${prefix}-load-balancer-resource-group`]: hostile,
    [`${prefix}-allowed-ip-ranges`]: `10.0.0.0/8,${hostile}`,
    [`${prefix}-pip-tags`]: `k8s-azure-service=${hostile}`,
    [`${prefix}-no-such-annotation-${"x".repeat(20)}`]: hostile,
  };
  await lab.admin.create(kinds.Service, {
    metadata: { namespace: "default", name: "hostile", annotations },
    spec: { type: "LoadBalancer", ports: [{ port: 80, nodePort: 30_080, protocol: "TCP" }] },
  });
  const events = () => lab.api.list(kinds.Event).filter(({ involvedObject }) => involvedObject.name === "hostile");
  await eventually("it is refused", () => events().some(({ reason }) => reason === "SyncLoadBalancerFailed"), 40_000);
  const service = lab.api.get(kinds.Service, { namespace: "default", name: "hostile" });
  const shown = [
    ...events().map(({ message }) => message),
    ...(service?.status?.conditions ?? []).map(({ message }) => message),
  ];
  expect(shown.join()).toContain("resource-group");
  for (const text of shown) expect(text).toMatch(/^[^\p{Cc}\u2028]*$/u);
  // The stack of an error follows it, indented.
  for (const line of log.flatMap((entry) => entry.trimEnd().split("\n"))) {
    expect(line).toMatch(/^(?:[IWE]\d{4} |\t)[^\p{Cc}\u2028]*$/u);
    expect(line).not.toStartWith(forged.slice(0, 20));
  }
});
