import { expect, test } from "bun:test";

import { loadBalancerReady, syncFailureMessage } from "cloud-controller-host/sdk";

import { serviceFacts } from "../../../host/console/object-facts.ts";

const since = "2026-11-22T12:00:00Z";
const retryAt = "2026-11-22T12:00:05Z";

const conditionOf = (reason: string, message: string) =>
  serviceFacts({
    spec: { type: "LoadBalancer" },
    status: {
      conditions: [{ type: loadBalancerReady.type, status: "False", reason, message, lastTransitionTime: since }],
    },
  }).slice(3);

test("a Service that fails has its error and the next retry as facts of their own, and its warnings, which are not the cause", () => {
  const { failed } = loadBalancerReady;
  const name = `condition ${loadBalancerReady.type}`;
  const head = `False since ${since}: ${failed}`;
  const failure = [
    { name: "last error", value: "denied" },
    { name: "next retry", value: retryAt },
  ];
  const warned = syncFailureMessage({ error: "denied", retryAt, warnings: "one; two" });
  expect(conditionOf(failed, warned)).toEqual([
    { name, value: head },
    ...failure,
    { name: "warnings", value: "one; two" },
  ]);
  const plain = syncFailureMessage({ error: "denied", retryAt, warnings: "" });
  expect(conditionOf(failed, plain)).toEqual([{ name, value: head }, ...failure]);
  expect(conditionOf(failed, "")).toEqual([{ name, value: head }]);
  expect(conditionOf("Other", plain)).toEqual([{ name, value: `False since ${since}: Other: ${plain}` }]);
});
