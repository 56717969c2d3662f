import { describe, expect, test } from "bun:test";

import type { Service } from "cloud-controller-host/sdk";

import type { Observed, ServiceIntent } from "../../../../plugins/azure-cloud/load-balancer/model.ts";
import { plan } from "../../../../plugins/azure-cloud/load-balancer/plan.ts";
import type { PlannerConfig } from "../../../../plugins/azure-cloud/load-balancer/planner-config.ts";
import { applied } from "./applied.ts";
import { plannerConfigOf } from "./fixtures.ts";
import { meaningOf, nodesOf, observedAt, type RecordedCase, recordedCases } from "./recorded.ts";

const cases = await recordedCases();

const configOf = ({ cloudConfig, clusterName }: RecordedCase): PlannerConfig =>
  plannerConfigOf(cloudConfig, clusterName);

const intentsOf = (services: readonly Service[], recorded: RecordedCase, action: "ensure" | "delete") =>
  services.map((service): ServiceIntent => {
    const wanted = action === "ensure" && service.spec?.type === "LoadBalancer" ? "ensure" : "delete";
    return { service, action: wanted, nodes: nodesOf(recorded) };
  });

/** Plans and applies until nothing is left to write. */
function converged(batch: readonly ServiceIntent[], start: Observed, config: PlannerConfig): Observed {
  let observed = start;
  for (let round = 0; round < 5; round += 1) {
    const { stages } = plan(batch, observed, config);
    if (stages.length === 0) return observed;
    observed = applied(observed, { stages, results: new Map(), nodeEvents: new Map() });
  }
  throw new Error("no end after 5 rounds");
}

const withoutStatus = (service: Service): Service => ({ ...service, status: { loadBalancer: {} } });

/** Cases that are not compared with what the Go provider wrote, and why. */
const others: Readonly<Record<string, string>> = {
  "bad-idle-timeout": "the Go provider creates a public IP before it reads the annotation; nothing is written here",
  "multi-slb": "several standard load balancers are not planned yet",
};

const compared = cases.filter((recorded) => others[recorded.case] === undefined);

test("every case that is not compared exists", () => {
  const names = cases.map((recorded) => recorded.case);
  expect(Object.keys(others).filter((name) => !names.includes(name))).toEqual([]);
  expect(compared.length).toBeGreaterThan(40);
});

describe.each(compared.map((recorded) => [recorded.case, recorded] as const))("%s", (_name, recorded) => {
  const config = configOf(recorded);
  const created = recorded.steps["created"]?.services ?? [];

  test("plans from an empty group what the Go provider wrote", () => {
    const services = created.map(withoutStatus);
    const start = { ...observedAt(recorded, "afterDeletion"), services };
    const end = converged(intentsOf(services, recorded, "ensure"), start, config);
    expect(meaningOf(end)).toEqual(meaningOf(observedAt(recorded, "created")));
  });

  test("adopts what the Go provider wrote with an empty plan", () => {
    const { stages } = plan(intentsOf(created, recorded, "ensure"), observedAt(recorded, "created"), config);
    expect(stages).toEqual([]);
  });

  test("deletes everything that the Go provider wrote and nothing else", () => {
    const start = observedAt(recorded, "created");
    const end = converged(intentsOf(created, recorded, "delete"), start, config);
    expect(meaningOf(end)).toEqual(meaningOf(observedAt(recorded, "afterDeletion")));
  });
});
