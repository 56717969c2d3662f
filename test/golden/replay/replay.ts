import { expect } from "bun:test";

import type { Service } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { addressesOf } from "../../kit/services.ts";
import { type GoldenCase, type RecordedStep, stepsOf } from "./cases.ts";
import { differences, withoutEmptyPools } from "./differences.ts";
import { type GoldenCluster, kindOf } from "./golden-cluster.ts";
import { annotationOf } from "./refused.ts";
import { type Snapshot, snapshotOf } from "./snapshot.ts";
import { actOf } from "./steps.ts";

export interface Comparison {
  /** How long a step may take. */
  readonly withinMs: number;
  /** Events beyond the recorded ones are right where something was made to fail. */
  readonly events: "equal" | "ignored";
}

export const exact: Comparison = { withinMs: 30_000, events: "equal" };

export const same = (one: unknown, other: unknown): boolean => Bun.deepEquals(one, other);

/** A recorded step as ours should be. */
export const expected = (golden: GoldenCase, recorded: RecordedStep): Snapshot =>
  differences.reduce((snapshot, { ours }) => ours(snapshot, golden, recorded), snapshotOf(recorded));

/** Failures of the Go provider that ours does not share: it gets the Service done. */
const overcome: readonly RegExp[] = [
  // A single-stack IPv6 Service and the IPv4 half of a dual-stack one have public IPs of one name.
  /PropertyChangeNotAllowed[^]*publicIPAddressVersion/u,
  // So have internal frontends: the Go provider gives both the address of the one that is there.
  /PrivateIPAddressIsAllocated/u,
  // The pool of a Service that is not local any more is deleted while its rules still refer to it.
  /DELETE \S+\/backendAddressPools\/\S+[^]*RESPONSE 400/u,
  // Azure finds a public IP by its name in any case.
  /reconcilePublicIP .* pip\(.*\) not found/u,
];

/** True if a Service kept an address of a family that it does not have any more. */
const hasForeignAddress = (service: Service): boolean =>
  !new Set(service.spec?.ipFamilies).isSupersetOf(familiesOf(service));

/** Families of its frontends; additional addresses may be of any. */
const familiesOf = (service: Service): ReadonlySet<string> => {
  const additional = annotationOf(service, "azure-additional-public-ips")?.split(",") ?? [];
  const own = addressesOf(service).filter((address) => !additional.includes(address));
  return new Set(own.map((address) => (address.includes(":") ? "IPv6" : "IPv4")));
};

/**
 * With the first Service gone, what another was refused for may be gone too: it is created when it is tried again. So is
 * one that the Go provider alone cannot create, or leaves with an address of a family that it gave up.
 */
export const isUnblocked = (step: string, { services = [], events = [] }: RecordedStep): boolean =>
  (step === "afterDeletingFirst" && services.some((service) => addressesOf(service).length === 0)) ||
  (step === "afterUpdate" && services.some(hasForeignAddress)) ||
  events.some(({ message = "" }) => overcome.some((failure) => failure.test(message)));

/** True if a Service has addresses of the families that it asks for, and of no other. */
const hasItsAddresses = (service: Service): boolean =>
  familiesOf(service).symmetricDifference(new Set(service.spec?.ipFamilies ?? ["IPv4"])).size === 0;

export async function compareStep(
  cluster: GoldenCluster,
  step: string,
  recorded: RecordedStep,
  { withinMs, events }: Comparison = exact,
): Promise<void> {
  const compared = (snapshot: Snapshot): Snapshot => (events === "equal" ? snapshot : { ...snapshot, events: [] });
  const wanted = compared(expected(cluster.golden, recorded));
  // What the Go provider wrote to an empty pool stays there.
  const observed = (): Snapshot => snapshotOf(cluster.observe(recorded));
  const found = (): Snapshot => compared(cluster.adopted === undefined ? observed() : withoutEmptyPools(observed()));
  const isCreated = (): boolean => isUnblocked(step, recorded) && cluster.services().every(hasItsAddresses);
  // What is not as recorded in time shows below, in full.
  await eventually(step, () => isCreated() || same(found(), wanted), withinMs).catch(() => undefined);
  if (isCreated()) return;
  expect({ step, ...found() }).toEqual({ step, ...wanted });
}

/** Replays the steps of the case, the first of which is the one with that index, and compares each. */
export async function replay(cluster: GoldenCluster, from: number, comparison: Comparison = exact): Promise<void> {
  const steps = stepsOf(cluster.golden);
  for (const [index, [step, recorded]] of steps.entries()) {
    if (index < from) continue;
    await actOf(kindOf(cluster.golden), step)(cluster, recorded, steps[index - 1]?.[1]);
    await compareStep(cluster, step, recorded, comparison);
  }
}
