import { describe, expect, test } from "bun:test";

import type { CloudContext } from "cloud-controller-host/sdk";
import { manualClock } from "cloud-controller-host/sdk/testing";

import type { Observed } from "../../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import type { Flight } from "../../../../../../plugins/azure-cloud/load-balancer/reconcile/in-flight.ts";
import { UnendedOperations } from "../../../../../../plugins/azure-cloud/load-balancer/reconcile/later/unended-operations.ts";
import { capturedLog } from "../../../../../host/kube/captured-log.ts";
import { publicIP, usersBalancer, world } from "../../world.ts";

const network = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network";
const frontend = `a${"0".repeat(31)}`;

interface Shown {
  readonly provisioningState: string;
  /** False: no Service uses the resource. */
  readonly isOfService?: boolean;
}

const ofKind: Readonly<Record<string, (shown: Shown) => Partial<Observed>>> = {
  loadBalancers: ({ provisioningState, isOfService = true }) => {
    const { frontendIPConfigurations = [], ...rest } = usersBalancer("one");
    const own = isOfService ? [{ name: frontend }] : [];
    const loadBalancer = { ...rest, frontendIPConfigurations: [...frontendIPConfigurations, ...own] };
    return { loadBalancers: [{ ...loadBalancer, provisioningState }] };
  },
  publicIPAddresses: ({ provisioningState, isOfService = true }) => ({
    publicIPs: [
      publicIP("one", "20.0.0.1", {
        provisioningState,
        ...(isOfService && { tags: { "k8s-azure-service": "default/web" } }),
      }),
    ],
  }),
  networkSecurityGroups: ({ provisioningState }) => ({
    securityGroup: { id: `${network}/networkSecurityGroups/one`, name: "one", provisioningState },
  }),
  privateLinkServices: ({ provisioningState, isOfService = true }) => ({
    privateLinkServices: [
      {
        id: `${network}/privateLinkServices/one`,
        provisioningState,
        loadBalancerFrontendIpConfigurations: [
          { id: `${network}/loadBalancers/lb/frontendIPConfigurations/${isOfService ? frontend : "users-frontend"}` },
        ],
      },
    ],
  }),
};
const shown = (kind: string, one: Shown): Observed => world(ofKind[kind]?.(one));
const balancer = (provisioningState: string): Observed => shown("loadBalancers", { provisioningState });
const link = (provisioningState: string): Observed => shown("privateLinkServices", { provisioningState });
const balancerId = `${network}/loadBalancers/one`;

const ignore = (): void => undefined;

interface LabOptions {
  readonly refresh?: (seen: (observed: Observed) => void, stop: AbortController) => Promise<unknown>;
  readonly planning?: CloudContext["planning"];
}

function open({ refresh, planning }: LabOptions = {}) {
  const clock = manualClock();
  const stop = new AbortController();
  const { log, lines } = capturedLog();
  const outdated: (readonly [atSeconds: number, id: string])[] = [];
  const refreshes: number[] = [];
  const seconds = (): number => clock.monotonic() / 1000;
  const unended: UnendedOperations = new UnendedOperations({
    context: { clock, signal: stop.signal, log, ...(planning && { planning }) },
    outdate: (id) => void outdated.push([seconds(), id]),
    refresh: () => {
      refreshes.push(seconds());
      return refresh?.((observed) => unended.seen(observed, []), stop) ?? Promise.resolve(undefined);
    },
  });
  const seen = (observed: Observed, ...held: readonly string[]): void => {
    const flight: Flight = { services: [], holds: held, startedMs: 0, wave: undefined };
    unended.seen(observed, held.length === 0 ? [] : [flight]);
  };
  const lost = (): void => unended.lost(balancerId);
  return {
    clock,
    stop,
    lines,
    outdated,
    lost,
    refreshes,
    seen,
    advance: (amount: number) => clock.advance(amount * 1000),
  };
}

describe.each(Object.keys(ofKind))("a resource among the %s of Azure", (kind) => {
  test.each(["Updating", "Deleting", "updating"])(
    `one of the ${kind} that a Service uses and that is shown as %s is read again after a minute`,
    async (provisioningState) => {
      const lab = open();
      lab.seen(shown(kind, { provisioningState }));
      await lab.advance(59);
      expect(lab.outdated).toEqual([]);
      await lab.advance(1);
      expect(lab.outdated).toEqual([[60, `${network}/${kind}/one`]]);
      expect(lab.refreshes).toEqual([60]);
    },
  );

  test(`one of the ${kind} whose operation has ended is not read again`, async () => {
    const lab = open();
    for (const provisioningState of ["Succeeded", "Failed", ""]) lab.seen(shown(kind, { provisioningState }));
    await lab.advance(3600);
    expect([lab.outdated, lab.refreshes]).toEqual([[], []]);
  });

  if (kind !== "networkSecurityGroups")
    test(`one of the ${kind} that no Service uses is not read again`, async () => {
      const lab = open();
      lab.seen(shown(kind, { provisioningState: "Updating", isOfService: false }));
      await lab.advance(3600);
      expect([lab.outdated, lab.refreshes]).toEqual([[], []]);
    });
});

describe("operations that this process does not wait for", () => {
  test("an operation beside one of this process is followed", async () => {
    const lab = open();
    lab.seen(balancer("Updating"), `${network}/loadBalancers/other`);
    await lab.advance(60);
    expect(lab.outdated).toEqual([[60, balancerId]]);
  });

  test("an operation that takes hours costs at most one read of its resource in five minutes", async () => {
    const lab = open({ refresh: async (seen) => seen(balancer("Updating")) });
    lab.seen(balancer("Updating"));
    await lab.advance(6 * 3600);
    expect(lab.outdated.slice(0, 5).map(([at]) => at)).toEqual([60, 180, 420, 720, 1020]);
    expect(lab.outdated).toHaveLength(73);
  });

  test("an operation that has ended is not followed any more, and the next one is, a minute after it was observed", async () => {
    let state = "Updating";
    const lab = open({ refresh: async (seen) => seen(balancer(state)) });
    lab.seen(balancer(state));
    await lab.advance(60);
    state = "Failed";
    await lab.advance(3600);
    expect(lab.refreshes).toEqual([60, 180]);
    lab.seen(balancer("Updating"));
    await lab.advance(60);
    expect(lab.refreshes).toEqual([60, 180, 3720]);
  });

  test("observations that come at once, and during a refresh that hangs, lead to one refresh at a time", async () => {
    const hung = Promise.withResolvers<undefined>();
    const lab = open({ refresh: () => hung.promise });
    for (let count = 0; count < 3; count++) lab.seen(balancer("Updating"));
    await lab.advance(60);
    for (let count = 0; count < 3; count++) lab.seen(balancer("Updating"));
    await lab.advance(3600);
    expect([lab.refreshes, lab.clock.sleepers]).toEqual([[60], 0]);
    hung.resolve(undefined);
    await lab.advance(0);
    await lab.advance(120);
    expect(lab.refreshes).toEqual([60, 3780]);
  });

  test("an operation is followed to its end although later observations do not read its resource group", async () => {
    let state = "Updating";
    const lab = open({
      refresh: async (seen) => {
        seen(link(state));
        // Another round of the same refresh, for a Service that uses nothing of that group.
        seen(world());
      },
    });
    lab.seen(link(state));
    lab.seen(world());
    await lab.advance(60);
    state = "Failed";
    await lab.advance(3600);
    expect(lab.outdated.map(([at]) => at)).toEqual([60, 180]);
    expect(lab.refreshes).toEqual([60, 180]);
  });

  test("a generation that is stopped while it waits for the end of an operation refreshes no Service", async () => {
    const lab = open();
    lab.seen(balancer("Updating"));
    await lab.advance(30);
    lab.stop.abort();
    await lab.advance(3600);
    expect([lab.outdated, lab.refreshes, lab.clock.sleepers]).toEqual([[], [], 0]);
  });

  test("a plan follows no operation", async () => {
    const lab = open({ planning: { record: ignore, unknown: ignore, hold: ignore, inFlight: ignore } });
    lab.seen(balancer("Updating"));
    await lab.advance(3600);
    expect([lab.refreshes, lab.clock.sleepers]).toEqual([[], 0]);
  });

  test("an operation of this process is not followed, in whatever case its resource is named", async () => {
    const lab = open();
    lab.seen(balancer("Updating"), balancerId.toUpperCase());
    await lab.advance(3600);
    expect(lab.refreshes).toEqual([]);
  });

  test("Services that fail after an operation has ended are planned again until they succeed", async () => {
    const failures = [new Error("no"), new Error("no"), undefined];
    const lab = open({ refresh: () => Promise.resolve(failures.shift()) });
    lab.seen(balancer("Updating"));
    await lab.advance(3600);
    expect(lab.refreshes).toEqual([60, 180, 420]);
    expect(lab.lines().map(({ msg }) => msg)).toEqual([
      "Failed to bring Services to their desired state after an operation in Azure; trying again",
      "Failed to bring Services to their desired state after an operation in Azure; trying again",
    ]);
  });

  test("a generation that is stopped while it refreshes Services after an operation announces no other attempt", async () => {
    const lab = open({
      refresh: (_seen, stop) => {
        stop.abort();
        return Promise.resolve(stop.signal.reason);
      },
    });
    lab.seen(balancer("Updating"));
    await lab.advance(3600);
    expect([lab.refreshes, lab.lines()]).toEqual([[60], []]);
  });
});

test("a resource whose write had no reply is read again after a minute, once, and never in a plan", async () => {
  const lab = open();
  lab.lost();
  await lab.advance(59);
  expect(lab.refreshes).toEqual([]);
  await lab.advance(1);
  expect([lab.outdated, lab.refreshes]).toEqual([[[60, balancerId]], [60]]);
  await lab.advance(600);
  expect(lab.refreshes).toHaveLength(1);
  const planned = open({ planning: { record: ignore, unknown: ignore, hold: ignore, inFlight: ignore } });
  planned.lost();
  await planned.advance(600);
  expect(planned.refreshes).toEqual([]);
});
