import { expect, test } from "bun:test";

import { balancedService } from "../../../kit/services.ts";
import { staleConditions } from "./problems.ts";

const showing = (type: string, status: string) => ({
  ...balancedService("web"),
  status: { conditions: [{ type, status, reason: "", message: "", lastTransitionTime: "" }] },
});

test("a Service that still shows a failure is a problem without an object", () => {
  expect(staleConditions([showing("LoadBalancerReady", "False")])).toEqual([
    { text: "default/web still shows a failure" },
  ]);
});

test("a Service without a condition of a failed load balancer shows no failure", () => {
  const ready = showing("LoadBalancerReady", "True");
  expect(staleConditions([balancedService("web"), ready, showing("Other", "False")])).toEqual([]);
});
