import { describe, expect, test } from "bun:test";

import type { Node, Taint } from "cloud-controller-host/sdk";

import { serviceTaints } from "../../../plugins/azure-cloud/instances/out-of-service.ts";

const shutdown: Taint = { key: "node.cloudprovider.kubernetes.io/shutdown", effect: "NoSchedule" };
const outOfService: Taint = { key: "node.kubernetes.io/out-of-service", effect: "NoExecute" };
const other: Taint = { key: "mine", effect: "NoSchedule" };

const node = (ready: string, taints: readonly Taint[]): Node => ({
  metadata: { name: "n" },
  spec: { taints },
  status: { conditions: [{ type: "Ready", status: ready }] },
});

describe("the out-of-service taint", () => {
  const rows: readonly (readonly [string, Node, readonly Taint[] | undefined])[] = [
    [
      "is added to a node that is shut down and not ready",
      node("False", [other, shutdown]),
      [other, shutdown, outOfService],
    ],
    ["is added when the kubelet is silent", node("Unknown", [shutdown]), [shutdown, outOfService]],
    ["is not added a second time", node("False", [shutdown, outOfService]), undefined],
    ["is not added to a node that is merely not ready", node("False", [other]), undefined],
    ["is taken from a node that is ready", node("True", [outOfService, other]), [other]],
    ["leaves a ready node without it alone", node("True", [shutdown]), undefined],
  ];
  for (const [name, given, wanted] of rows) test(name, () => expect(serviceTaints(given)).toEqual(wanted));
});
