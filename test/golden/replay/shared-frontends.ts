import { defaultLoadBalancerName } from "cloud-controller-host/sdk";

import { type JsonObject, objectAt, objectsAt, stringAt } from "../../../plugins/azure-cloud/json.ts";
import { type GoldenCase, type RecordedStep, stepsOf } from "./cases.ts";
import { failure, servicesOf, withoutResourcesOf } from "./refused.ts";
import { type Snapshot, snapshotOf } from "./snapshot.ts";

const before = (golden: GoldenCase, step: RecordedStep): RecordedStep | undefined => {
  const steps = stepsOf(golden).map(([, recorded]) => recorded);
  return steps[steps.indexOf(step) - 1];
};

const idOf = (item: JsonObject | undefined): string => (stringAt(item, "id") ?? "").toLowerCase();

const partsOf = ({ arm }: RecordedStep, kind: string): readonly JsonObject[] =>
  arm
    .filter((item) => idOf(item).includes("/loadbalancers/"))
    .flatMap((item) => objectsAt(objectAt(item, "properties"), kind));

const publicIPOf = (frontend: JsonObject): string =>
  idOf(objectAt(objectAt(frontend, "properties"), "publicIPAddress"));

/** Names of frontends that got another public IP in a step, although another Service uses them before and after. */
function moved(golden: GoldenCase, step: RecordedStep): readonly string[] {
  const earlier = before(golden, step);
  if (earlier === undefined) return [];
  const then = new Map(partsOf(earlier, "frontendIPConfigurations").map((one) => [idOf(one), publicIPOf(one)]));
  return partsOf(step, "frontendIPConfigurations").flatMap((frontend) => {
    const name = stringAt(frontend, "name") ?? "";
    const isOther = (rule: JsonObject): boolean =>
      idOf(objectAt(objectAt(rule, "properties"), "frontendIPConfiguration")) === idOf(frontend) &&
      stringAt(rule, "name")?.startsWith(`${name}-`) !== true;
    const known = then.get(idOf(frontend)) ?? "";
    const isMoved = known !== "" && known !== publicIPOf(frontend);
    return isMoved && [earlier, step].every((one) => partsOf(one, "loadBalancingRules").some(isOther)) ? [name] : [];
  });
}

/** True if the Go provider took Services along to the new address of another one. */
export const movesOthers = (golden: GoldenCase, step: RecordedStep): boolean => moved(golden, step).length > 0;

/** A change that is refused before anything is written; the Go provider has deleted the load balancer by then. */
const withoutSet = /availability set \(.*\) - not found/u;

/** True if the Go provider had deleted what a Service had before it refused a change of it. */
const deletesFirst = (golden: GoldenCase, step: RecordedStep): boolean =>
  before(golden, step) !== undefined &&
  (step.services ?? []).length > 0 &&
  (step.events ?? []).some(({ message = "" }) => withoutSet.test(message));

/** A snapshot in which a Service whose mode names an unknown set keeps what it had. */
export function withKeptBalancers(recorded: Snapshot, golden: GoldenCase, step: RecordedStep): Snapshot {
  const earlier = before(golden, step);
  if (earlier === undefined || !deletesFirst(golden, step)) return recorded;
  return { ...snapshotOf(earlier), events: recorded.events };
}

/** A snapshot in which the first Service of a shared frontend was refused another address, and left nothing in the end. */
export function withKeptAddresses(recorded: Snapshot, golden: GoldenCase, step: RecordedStep): Snapshot {
  const frontends = moved(golden, step);
  const earlier = before(golden, step);
  const isEnd = step.services === undefined;
  if (isEnd && stepsOf(golden).some(([, one]) => movesOthers(golden, one)))
    return [...servicesOf(golden).values()].flatMap(([first]) => first ?? []).reduce(withoutResourcesOf, recorded);
  if (earlier === undefined || frontends.length === 0) return recorded;
  const failures = (step.services ?? [])
    .filter((service) => frontends.includes(defaultLoadBalancerName(service)))
    .map(({ metadata }) => failure(metadata?.name ?? ""));
  return { ...snapshotOf(earlier), events: [...new Set([...recorded.events, ...failures])].toSorted() };
}
