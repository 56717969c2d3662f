import { isObject } from "cloud-controller-host/sdk";

import { objectAt, stringAt } from "../../../plugins/azure-cloud/json.ts";
import { type GoldenCase, type RecordedStep, stepsOf } from "./cases.ts";
import { failure, isRejection } from "./refused.ts";
import { type Snapshot, snapshotOf } from "./snapshot.ts";

const syncFailed = "SyncLoadBalancerFailed";

/** A snapshot without public IPs that the Go provider created for Services whose change it refused then. */
export function withoutRefusedAddresses(recorded: Snapshot, golden: GoldenCase, step: RecordedStep): Snapshot {
  const steps = stepsOf(golden).map(([, one]) => one);
  const until = steps.slice(0, steps.indexOf(step) + 1).map((one) => JSON.stringify(snapshotOf(one).arm));
  const isLeft = ([id, value]: readonly [string, unknown]): boolean => {
    const owner = isObject(value) ? stringAt(objectAt(value, "tags"), "k8s-azure-service") : undefined;
    const name = owner?.slice(owner.indexOf("/") + 1) ?? "";
    const failures = (step.events ?? []).filter(({ object, reason }) => object === name && reason === syncFailed);
    const isRefused = failures.length > 0 && !failures.some(isRejection);
    return id.includes("/publicipaddresses/") && isRefused && !until.some((text) => text.includes(`:"${id}"`));
  };
  return { ...recorded, arm: Object.fromEntries(Object.entries(recorded.arm).filter((entry) => !isLeft(entry))) };
}

const otherFamily = /publicIPAddresses\/[^]*PropertyChangeNotAllowed/u;

/** A snapshot without the attempt to give a public IP of a user the other family. */
export function withoutChangeOfFamily(recorded: Snapshot, _golden: GoldenCase, step: RecordedStep): Snapshot {
  const attempts = (step.events ?? [])
    .filter(({ reason, message = "" }) => reason === "CreateOrUpdatePublicIPAddress" && otherFamily.test(message))
    .map(({ object }) => `${object} Warning CreateOrUpdatePublicIPAddress`);
  return { ...recorded, events: recorded.events.filter((event) => !attempts.includes(event)) };
}

const updates = ["Normal UpdatedLoadBalancer", "Warning UpdateLoadBalancerFailed"];

/** What the user of a Service wrote. */
function written({ services = [] }: RecordedStep, name: string): unknown {
  const service = services.find(({ metadata }) => metadata?.name === name);
  return { spec: service?.spec, annotations: service?.metadata?.annotations };
}

/** A snapshot in which the nodes of a Service that fails are left to its next attempt. */
export function withoutPendingUpdates(recorded: Snapshot, golden: GoldenCase, step: RecordedStep): Snapshot {
  const steps = stepsOf(golden).map(([, one]) => one);
  const until = steps.slice(0, steps.indexOf(step) + 1);
  const first = (event: string): number => until.findIndex((one) => snapshotOf(one).events.includes(event));
  const isPending = (event: string): boolean => {
    const name = event.slice(0, event.indexOf(" "));
    if (!updates.includes(event.slice(name.length + 1))) return false;
    const [failed, updated] = [first(failure(name)), first(event)];
    const since = until.slice(failed, updated + 1);
    const [then] = since;
    if (then === undefined || failed < 0 || failed >= updated) return false;
    const isSame = since.every((one) => Bun.deepEquals(written(one, name), written(then, name)));
    return isSame || !recorded.events.includes(`${name} Normal EnsuredLoadBalancer`);
  };
  return { ...recorded, events: recorded.events.filter((event) => !isPending(event)) };
}
