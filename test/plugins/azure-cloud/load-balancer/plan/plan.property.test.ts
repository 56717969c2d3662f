import { expect, setDefaultTimeout, test } from "bun:test";

import type { Service } from "cloud-controller-host/sdk";
import * as fc from "fast-check";

import type { Observed, ServiceIntent } from "../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import type { PlannerConfig } from "../../../../../plugins/azure-cloud/load-balancer/model/planner-config.ts";
import { plan } from "../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { applied } from "../applied.ts";
import { intentOf, plannerConfigOf } from "../fixtures.ts";
import { meaningOf } from "../meaning.ts";
import { converge, deepFreeze, nodesNamed, usersBalancer, world } from "../world.ts";

setDefaultTimeout(120_000);

const seed = 20_261_121;
const check = <Ts extends unknown[]>(property: fc.IProperty<Ts>, numRuns = 40): void =>
  fc.assert(property, { seed, numRuns });

const choices: fc.Arbitrary<Readonly<Record<string, string>>> = fc
  .array(
    fc.constantFrom(
      ["azure-load-balancer-internal", "true"],
      ["azure-load-balancer-internal", "true"],
      ["azure-load-balancer-internal-subnet", "lb-subnet"],
      ["azure-pip-name", "my-pip"],
      ["azure-load-balancer-ipv4", "20.9.9.9"],
      ["azure-dns-label-name", "web"],
      ["azure-pip-tags", "a=b"],
      ["azure-allowed-service-tags", "Storage,AzureCloud"],
      ["azure-allowed-ip-ranges", "198.51.100.0/25,198.51.100.128/25,2001:db8::/32"],
      ["azure-allowed-ip-ranges", "banana"],
      ["azure-deny-all-except-load-balancer-source-ranges", "true"],
      ["azure-disable-load-balancer-floating-ip", "true"],
      ["azure-disable-load-balancer-nsg-rule", "true"],
      ["azure-additional-public-ips", "198.51.100.8,2001:db8::8"],
      ["azure-load-balancer-enable-high-availability-ports", "true"],
      ["azure-load-balancer-tcp-idle-timeout", "10"],
      ["azure-load-balancer-tcp-idle-timeout", "3"],
      ["port_80_no_lb_rule", "true"],
      ["port_443_no_probe_rule", "true"],
      ["port_443_health-probe_port", "80"],
      ["azure-pls-create", "true"],
      ["azure-pls-proxy-protocol", "true"],
      ["azure-load-balancer-configurations", "lb3"],
    ),
    { maxLength: 4 },
  )
  .map((pairs) => Object.fromEntries(pairs));

const ports = fc
  .uniqueArray(
    fc.constantFrom(["TCP", 80] as const, ["TCP", 443] as const, ["UDP", 53] as const, ["TCP", 53] as const),
    {
      minLength: 1,
      maxLength: 3,
      selector: (pair) => pair.join(),
    },
  )
  .map((pairs) =>
    pairs.map(([protocol, port]) => ({
      name: `${protocol}-${port}`.toLowerCase(),
      protocol,
      port,
      nodePort: 30_000 + port,
    })),
  );

const spec: fc.Arbitrary<Partial<NonNullable<Service["spec"]>>> = fc
  .record({
    ports,
    ipFamilies: fc.constantFrom(["IPv4"], ["IPv6"], ["IPv4", "IPv6"], ["IPv6", "IPv4"]),
    sessionAffinity: fc.constantFrom("None", "ClientIP"),
    local: fc.boolean(),
  })
  .map(({ local, ...rest }) => ({
    ...rest,
    externalTrafficPolicy: local ? "Local" : "Cluster",
    ...(local && { healthCheckNodePort: 32_000 }),
  }));

const nodes = nodesNamed("node-0", "node-1");

const uid = (index: number): string => `0000000${index}-1111-2222-3333-444455556666`;

/** Up to five Services of any shape. */
const intentLists: fc.Arbitrary<readonly ServiceIntent[]> = fc
  .array(fc.record({ annotations: choices, spec, labels: fc.constantFrom({}, { tier: "gold" }) }), {
    minLength: 1,
    maxLength: 5,
  })
  .map((shapes) => shapes.map((shape, index) => intentOf({ ...shape, name: `web-${index}`, uid: uid(index), nodes })));

const single = fc
  .record({
    loadBalancerBackendPoolConfigurationType: fc.constantFrom("nodeIPConfiguration", "nodeIP"),
    clusterServiceLoadBalancerHealthProbeMode: fc.constantFrom("servicenodeport", "shared"),
    tags: fc.constantFrom("", "env=test"),
    loadBalancerName: fc.constantFrom("", "edge"),
  })
  .map((keys) => plannerConfigOf(keys));

const several = plannerConfigOf({
  loadBalancerBackendPoolConfigurationType: "nodeIP",
  multipleStandardLoadBalancerConfigurations: [
    { name: "kubernetes", primaryVMSet: "vmss0" },
    { name: "lb2", primaryVMSet: "vmss1", serviceLabelSelector: { matchLabels: { tier: "gold" } } },
    { name: "lb3", primaryVMSet: "vmss2" },
  ],
});

const configs = fc.oneof({ weight: 3, arbitrary: single }, { weight: 1, arbitrary: fc.constant(several) });

/** An empty group, or one whose load balancers hold things of users. */
const starts = fc.constantFrom(
  world(),
  world({ loadBalancers: [usersBalancer("kubernetes"), usersBalancer("kubernetes-internal"), usersBalancer("mine")] }),
);

const withServices = (observed: Observed, intents: readonly ServiceIntent[]): Observed => ({
  ...observed,
  services: intents.map(({ service }) => service),
});

/** The Services with the status that the plan gave them; one with a problem keeps the status that it had. */
function synced(intents: readonly ServiceIntent[], observed: Observed, config: PlannerConfig) {
  const { results } = plan(intents, observed, config);
  return intents.map((intent): ServiceIntent => {
    const status = results.get(`default/${intent.service.metadata?.name}`)?.status;
    return status === undefined
      ? intent
      : { ...intent, service: { ...intent.service, status: { loadBalancer: status } } };
  });
}

const deletions = (intents: readonly ServiceIntent[]): readonly ServiceIntent[] =>
  intents.map((intent) => ({ ...intent, action: "delete" }));

test("planning again after the plan is applied writes nothing, and changes nothing in place", () => {
  check(
    fc.property(intentLists, starts, configs, (intents, start, config) => {
      const before = deepFreeze(withServices(start, intents));
      const { observed, last, rounds } = converge(deepFreeze(intents), before, config);
      expect(rounds).toBeLessThanOrEqual(3);
      expect([...last.results.values()].every(({ settled }) => settled)).toBe(true);
      const after = synced(intents, observed, config);
      expect(plan(after, withServices(observed, after), config).stages).toEqual([]);
    }),
  );
});

test("Services in any order reach the same state", () => {
  check(
    fc.property(intentLists, starts, configs, fc.infiniteStream(fc.nat()), (intents, start, config, keys) => {
      const shuffled = intents
        .map((intent) => ({ intent, key: keys.next().value ?? 0 }))
        .toSorted((left, right) => left.key - right.key)
        .map(({ intent }) => intent);
      const one = converge(intents, withServices(start, intents), config);
      const other = converge(shuffled, withServices(start, shuffled), config);
      expect(meaningOf(other.observed)).toEqual(meaningOf(one.observed));
    }),
  );
});

test("deleting every Service leaves exactly what was there before", () => {
  check(
    fc.property(intentLists, starts, configs, (intents, start, config) => {
      const { observed } = converge(intents, withServices(start, intents), config);
      const last = synced(intents, observed, config);
      const end = converge(deletions(last), withServices(observed, last), config);
      expect(withoutTraces(end.observed)).toEqual(withoutTraces(start));
    }),
  );
});

/**
 * The state without what a deletion may leave in a load balancer of users: empty pools of ours, configured tags, and a
 * DNS label on a public IP that a user created.
 */
function withoutTraces(observed: Observed): unknown {
  const clean: Observed = {
    ...observed,
    loadBalancers: observed.loadBalancers.map(({ tags: _tags, ...one }) => ({
      ...one,
      backendAddressPools: (one.backendAddressPools ?? []).filter(({ name }) => !name?.startsWith("kubernetes")),
    })),
    publicIPs: observed.publicIPs.map(({ dnsSettings: _dns, ...one }) => one),
    securityGroup: { ...observed.securityGroup, tags: {} },
    poolMembers: new Map(),
  };
  return meaningOf(clean);
}

test("a Service with invalid annotations is in no write, and the others are planned as if it were not there", () => {
  const invalid = intentOf({
    name: "bad",
    uid: uid(9),
    nodes,
    annotations: { "azure-load-balancer-tcp-idle-timeout": "soon", "azure-pip-name": "my-pip" },
  });
  check(
    fc.property(intentLists, starts, configs, (intents, start, config) => {
      const before = withServices(start, [...intents, invalid]);
      const together = plan([...intents, invalid], before, config);
      const alone = plan(intents, before, config);
      expect(together.stages).toEqual(alone.stages);
      expect(together.results.get("default/bad")?.problem?.code).toBe("InvalidService");
      expect(JSON.stringify(together.stages)).not.toContain("default/bad");
    }),
  );
});

test("nothing of a user is ever changed or deleted", () => {
  check(
    fc.property(intentLists, configs, fc.boolean(), (intents, config, remove) => {
      const start = withServices(
        world({ loadBalancers: [usersBalancer("kubernetes"), usersBalancer("kubernetes-internal")] }),
        intents,
      );
      const middle = converge(intents, start, config).observed;
      const end = remove ? converge(deletions(intents), middle, config).observed : middle;
      for (const original of start.loadBalancers) {
        const kept = end.loadBalancers.find(({ id }) => id === original.id);
        for (const list of ["frontendIPConfigurations", "loadBalancingRules", "probes", "outboundRules"] as const)
          for (const item of original[list] ?? [])
            expect(kept?.[list]?.find(({ name }) => name === item.name)).toEqual(item);
        expect(kept?.tags).toMatchObject(original.tags ?? {});
      }
      expect(end.securityGroup?.securityRules).toContainEqual(start.securityGroup?.securityRules?.[0] ?? {});
      expect(end.publicIPs.find(({ name }) => name === "users-ip")).toMatchObject({ ipAddress: "20.9.9.10" });
      expect(end.publicIPs.find(({ name }) => name === "my-pip")?.tags).toBeUndefined();
    }),
  );
});

const pairs = fc.tuple(intentLists, intentLists).map(([before, after]) => {
  const count = Math.min(before.length, after.length);
  return [before.slice(0, count), after.slice(0, count)] as const;
});

test("Services that change into any other shape converge, and still leave nothing behind", () => {
  check(
    fc.property(pairs, starts, configs, ([before, after], start, config) => {
      const first = converge(before, withServices(start, before), config);
      const statuses = synced(before, first.observed, config);
      const changed = after.map((intent, index): ServiceIntent => {
        const status = statuses[index]?.service.status;
        return status === undefined ? intent : { ...intent, service: { ...intent.service, status } };
      });
      const second = converge(changed, withServices(first.observed, changed), config);
      expect(second.rounds).toBeLessThanOrEqual(4);
      expect([...second.last.results.values()].every(({ settled }) => settled)).toBe(true);
      const last = synced(changed, second.observed, config);
      expect(plan(last, withServices(second.observed, last), config).stages).toEqual([]);
      const end = converge(deletions(last), withServices(second.observed, last), config);
      expect(withoutTraces(end.observed)).toEqual(withoutTraces(start));
    }),
    60,
  );
});

/** The plan of copies: nothing that was computed before is known of them. */
function planOfCopies(intents: readonly ServiceIntent[], observed: Observed, config: PlannerConfig) {
  const copies = structuredClone({ intents, observed });
  return plan(copies.intents, copies.observed, { ...config });
}

const fields = ["loadBalancers", "publicIPs", "securityGroup", "poolMembers", "services", "nodes"] as const;

test("the plan of any mix of states that were planned before is that of copies of them", () => {
  const mixes = fc.array(fc.record({ of: fc.array(fc.nat(), { minLength: 7, maxLength: 7 }), planned: fc.nat(31) }), {
    minLength: 4,
    maxLength: 8,
  });
  check(
    fc.property(pairs, starts, configs, mixes, ([before, after], start, config, mixed) => {
      const first = converge(before, withServices(start, before), config).observed;
      const known = synced(before, first, config);
      const changed = known.map((intent, index) => (index % 2 === 0 ? intent : (after[index] ?? intent)));
      const second = converge(changed, withServices(first, changed), config).observed;
      const fewer = nodesNamed("node-0");
      const moved = synced(changed, second, config).map((intent) => ({ ...intent, nodes: fewer }));
      const third = { ...converge(moved, withServices(second, moved), config).observed, nodes: fewer };
      const states = [withServices(start, before), withServices(first, known), withServices(second, changed), third];
      const wishes = [before, known, changed, moved, deletions(known), deletions(moved)];
      for (const {
        of: [whose = 0, ...of],
        planned,
      } of mixed) {
        const state = states[whose % states.length] ?? start;
        const parts = fields.map((field, at) => ({ [field]: states[(of[at] ?? 0) % states.length]?.[field] }));
        const observed: Observed = Object.assign({ ...state }, ...parts);
        const intents = (wishes[whose % wishes.length] ?? before).filter((_, at) => ((planned >> at) & 1) === 1);
        expect(plan(intents, observed, config)).toEqual(planOfCopies(intents, observed, config));
      }
    }),
    40,
  );
});

/** Priorities of security rules follow the order in which they were created. */
function withoutPriorities(observed: Observed): Observed {
  const rules = (observed.securityGroup?.securityRules ?? []).map((rule) => ({ ...rule, priority: 0 }));
  return { ...observed, securityGroup: { ...observed.securityGroup, securityRules: rules } };
}

/** Carries out only the first writes of the plan, as a process does that crashes between two of them. */
function interrupted(
  intents: readonly ServiceIntent[],
  observed: Observed,
  config: PlannerConfig,
  count: number,
): Observed {
  const planned = plan(intents, observed, config);
  const writes = planned.stages.flatMap(({ name, writes: all }) => all.map((write) => ({ name, writes: [write] })));
  return applied(observed, { ...planned, stages: writes.slice(0, count) });
}

test("a crash between any two writes changes nothing in the end, neither on creation nor on deletion", () => {
  check(
    fc.property(intentLists, starts, configs, fc.nat(12), fc.nat(12), (intents, start, config, one, other) => {
      const before = withServices(start, intents);
      const whole = converge(intents, before, config).observed;
      const created = converge(intents, interrupted(intents, before, config, one), config).observed;
      // Among several load balancers the emptiest is chosen, and that depends on what was written first.
      if (config !== several)
        expect(meaningOf(withoutPriorities(created))).toEqual(meaningOf(withoutPriorities(whole)));
      const last = synced(intents, created, config);
      const half = interrupted(deletions(last), withServices(created, last), config, other);
      const end = converge(deletions(last), half, config);
      expect(withoutTraces(end.observed)).toEqual(withoutTraces(start));
    }),
    60,
  );
});
