import { describe, expect, test } from "bun:test";

import { interruptionsOf } from "../../../../../plugins/azure-cloud/arm/planning/interruptions.ts";
import type { JsonObject } from "../../../../../plugins/azure-cloud/json.ts";

const network = "microsoft.network";
const of = (properties: JsonObject): JsonObject => ({ properties });
const named = (name: string, properties: JsonObject = {}): JsonObject => ({ name, properties });
const pool = { id: "/lb/backendAddressPools/kubernetes" };
const member = (address: string): JsonObject => ({ name: address, properties: { ipAddress: address } });
const configuration = (...pools: readonly JsonObject[]): JsonObject =>
  named("ipconfig", { loadBalancerBackendAddressPools: pools });

interface Row {
  /** Completes "a plan marks …". */
  readonly marks: string;
  readonly type: string;
  readonly before: JsonObject;
  readonly after: JsonObject | undefined;
  readonly interruptions: readonly string[];
}

const rows: readonly Row[] = [
  {
    marks: "a frontend that goes",
    type: `${network}/loadbalancers`,
    before: of({ frontendIPConfigurations: [named("web"), named("api")] }),
    after: of({ frontendIPConfigurations: [named("api")] }),
    interruptions: ["frontend web is removed"],
  },
  {
    marks: "a rule that goes",
    type: `${network}/loadbalancers`,
    before: of({ loadBalancingRules: [named("web-TCP-80"), named("web-TCP-443")] }),
    after: of({ loadBalancingRules: [named("web-TCP-443")] }),
    interruptions: ["rule web-TCP-80 is removed"],
  },
  {
    marks: "an outbound rule that goes",
    type: `${network}/loadbalancers`,
    before: of({ outboundRules: [named("out")] }),
    after: of({}),
    interruptions: ["outbound rule out is removed"],
  },
  {
    marks: "a frontend whose public IP changes",
    type: `${network}/loadbalancers`,
    before: of({ frontendIPConfigurations: [named("web", { publicIPAddress: { id: "/pip/a" } })] }),
    after: of({ frontendIPConfigurations: [named("web", { publicIPAddress: { id: "/pip/b" } })] }),
    interruptions: ["frontend web gets another address"],
  },
  {
    marks: "a frontend whose address in its subnet changes",
    type: `${network}/loadbalancers`,
    before: of({ frontendIPConfigurations: [named("web", { subnet: { id: "/s" }, privateIPAddress: "10.0.0.4" })] }),
    after: of({ frontendIPConfigurations: [named("web", { subnet: { id: "/s" }, privateIPAddress: "10.0.0.5" })] }),
    interruptions: ["frontend web gets another address"],
  },
  {
    marks: "a member by address that goes",
    type: `${network}/loadbalancers`,
    before: of({
      backendAddressPools: [
        named("kubernetes", { loadBalancerBackendAddresses: ["10.0.0.4", "10.0.0.5"].map(member) }),
      ],
    }),
    after: of({ backendAddressPools: [named("kubernetes", { loadBalancerBackendAddresses: [member("10.0.0.5")] })] }),
    interruptions: ["pool kubernetes loses 10.0.0.4"],
  },
  {
    marks: "all that a deleted load balancer had",
    type: `${network}/loadbalancers`,
    before: of({ frontendIPConfigurations: [named("web")], loadBalancingRules: [named("web-TCP-80")] }),
    after: undefined,
    interruptions: ["frontend web is removed", "rule web-TCP-80 is removed"],
  },
  {
    marks: "an instance that leaves a pool",
    type: "microsoft.compute/virtualmachinescalesets/virtualmachines",
    before: of({ networkProfileConfiguration: { networkInterfaceConfigurations: [configuration(pool)] } }),
    after: of({ networkProfileConfiguration: { networkInterfaceConfigurations: [configuration()] } }),
    interruptions: ["leaves pool kubernetes"],
  },
  {
    marks: "a network interface that leaves a pool",
    type: `${network}/networkinterfaces`,
    before: of({ ipConfigurations: [configuration(pool)] }),
    after: of({ ipConfigurations: [configuration()] }),
    interruptions: ["leaves pool kubernetes"],
  },
  {
    marks: "an address that is released",
    type: `${network}/publicipaddresses`,
    before: of({ ipAddress: "20.0.0.1" }),
    after: undefined,
    interruptions: ["address 20.0.0.1 is released"],
  },
  {
    marks: "a security rule that goes",
    type: `${network}/networksecuritygroups`,
    before: of({ securityRules: [named("allow-web"), named("allow-api")] }),
    after: of({ securityRules: [named("allow-api")] }),
    interruptions: ["security rule allow-web is removed"],
  },
  {
    marks: "a route that goes",
    type: `${network}/routetables`,
    before: of({ routes: [named("vm-0"), named("vm-1")] }),
    after: of({ routes: [named("vm-1")] }),
    interruptions: ["route vm-0 is removed"],
  },
  {
    marks: "a private link service that goes",
    type: `${network}/privatelinkservices`,
    before: of({}),
    after: undefined,
    interruptions: ["the private link service is deleted"],
  },
];

describe("a plan", () => {
  for (const { marks, type, before, after, interruptions } of rows)
    test(`marks ${marks}, and nothing where that is new or stays`, () => {
      expect(interruptionsOf(type, before, after)).toEqual(interruptions);
      expect(interruptionsOf(type, undefined, before)).toEqual([]);
      expect(interruptionsOf(type, before, before)).toEqual([]);
      if (after !== undefined && type !== `${network}/loadbalancers`)
        expect(interruptionsOf(type, after, before)).toEqual([]);
    });
});
