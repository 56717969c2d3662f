import { expect, test } from "bun:test";

import { plan } from "../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { changesOf, ownersOf } from "../../../../../plugins/azure-cloud/load-balancer/removals/contents.ts";
import { intentOf, plannerConfigOf } from "../fixtures.ts";
import { converge, nodesNamed, world } from "../world.ts";

const config = plannerConfigOf();

test("the deletion of a Service removes its parts, its public IP and its private link service, and nothing of the others", () => {
  const [web, other] = ["a".repeat(32), "b".repeat(32)].map((uid, index) => {
    const annotations = { "azure-pls-create": "true", "azure-disable-load-balancer-floating-ip": "true" };
    const spec = { ports: [{ name: "p", protocol: "TCP", port: 80 + index, nodePort: 30_080 + index }] };
    return intentOf({ name: `web-${index}`, uid, annotations, spec, nodes: nodesNamed("node-0") });
  });
  if (web === undefined || other === undefined) throw new Error("two Services are needed");
  const { observed } = converge([web, other], world(), config);
  const batch = [{ ...web, action: "delete" as const }];
  const state = { ...observed, services: [other.service] };
  const changes = changesOf(plan(batch, state, config), {
    observed: state,
    owners: ownersOf(batch, state, config),
    isFree: () => true,
  });
  const removed = changes.flatMap(({ before, after }) => {
    const left = new Set(after.map(({ kind, name }) => `${kind} ${name}`));
    return before
      .filter(({ kind, name }) => !left.has(`${kind} ${name}`))
      .map(({ kind, owners }) => [kind, ...owners.map(({ name }) => name)].join(" "));
  });
  expect(removed.toSorted()).toEqual([
    "frontend addresses default/web-0",
    "frontends default/web-0",
    "private link services default/web-0",
    "probes default/web-0",
    "public IPs default/web-0",
    "rules default/web-0",
    "security rules",
    "security rules",
  ]);
});
