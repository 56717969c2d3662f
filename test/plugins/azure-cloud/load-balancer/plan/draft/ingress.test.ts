import { expect, test } from "bun:test";

import { observedAddresses } from "../../../../../../plugins/azure-cloud/load-balancer/plan/draft/ingress.ts";
import { intentOf } from "../../fixtures.ts";
import { publicIP, world } from "../../world.ts";

test("the addresses of a Service are those of its frontends and of its rules, each once and in the order of the load balancer", () => {
  const { service } = intentOf({ name: "web" });
  const frontend = (name: string, ip: string) => ({
    name,
    id: `/lb/${name}`,
    ...(ip.includes("/") ? { publicIPAddress: { id: ip } } : { privateIPAddress: ip }),
  });
  const pip = publicIP("shared", "20.9.9.9");
  const frontendIPConfigurations = [
    frontend("ashared", pip.id ?? ""),
    frontend("AWEB-old", "10.0.0.1"),
    frontend("aweb", "10.0.0.2"),
    frontend("aweb-IPv6", "fd00::1"),
    frontend("aother", "10.0.0.3"),
    frontend("aweb-pending", ""),
  ];
  const loadBalancingRules = [
    { name: "aweb-TCP-80", frontendIPConfiguration: { id: "/lb/AWEB-ipv6" } },
    { name: "AWEB-TCP-81", frontendIPConfiguration: { id: "/LB/ashared" } },
    { name: "aother-TCP-82", frontendIPConfiguration: { id: "/lb/aother" } },
  ];
  const balancer = { id: "/lb", name: "kubernetes", frontendIPConfigurations, loadBalancingRules };
  const observed = world({ publicIPs: [pip], loadBalancers: [balancer] });
  expect(observedAddresses(observed, service)).toEqual(["20.9.9.9", "10.0.0.2", "fd00::1"]);
});
