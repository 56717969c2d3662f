import { type Fact, finalizers, hasFinalizer, type Node, type Service, syncFailureIn } from "cloud-controller-host/sdk";

/** The state of an object in Kubernetes, for people. */
export function serviceFacts(service: Service): readonly Fact[] {
  const { spec, status, metadata } = service;
  const addresses = (status?.loadBalancer?.ingress ?? []).map(({ ip, hostname }) => ip ?? hostname ?? "");
  const wait = waitOf(service);
  const waitsFor = wait === undefined ? [] : [{ name: "waits for", value: wait }];
  return [
    { name: "type", value: spec?.type ?? "ClusterIP" },
    ...(spec?.loadBalancerClass === undefined ? [] : [{ name: "class", value: spec.loadBalancerClass }]),
    { name: "addresses", value: addresses.join(", ") || "none" },
    { name: "finalizers", value: metadata?.finalizers?.join(", ") || "none" },
    ...(metadata?.deletionTimestamp === undefined
      ? []
      : [{ name: "being deleted since", value: metadata.deletionTimestamp }]),
    ...waitsFor,
    ...(status?.conditions ?? []).flatMap(conditionFacts),
  ];
}

type Condition = NonNullable<NonNullable<Service["status"]>["conditions"]>[number];

/** A failure, its next retry and the warnings on lines of their own: beside the reason, a warning would read as its cause. */
function conditionFacts(condition: Condition): readonly Fact[] {
  const { type, status, reason, message, lastTransitionTime } = condition;
  const failure = syncFailureIn(condition);
  const name = `condition ${type}`;
  const head = `${status} since ${lastTransitionTime}: ${reason}`;
  if (failure === undefined) return [{ name, value: message === "" ? head : `${head}: ${message}` }];
  const { error, retryAt, warnings } = failure;
  return [
    { name, value: head },
    { name: "last error", value: error },
    { name: "next retry", value: retryAt },
    ...(warnings === "" ? [] : [{ name: "warnings", value: warnings }]),
  ];
}

/** The reason why a Service has no address, unless a condition shows it. */
function waitOf(service: Service): string | undefined {
  const { spec, status, metadata } = service;
  const isServed = hasFinalizer(service, finalizers.loadBalancerCleanup);
  const isRemoved = metadata?.deletionTimestamp !== undefined || spec?.type !== "LoadBalancer";
  if (isRemoved) return isServed ? "its load balancer to be removed" : undefined;
  const hasFailed = (status?.conditions ?? []).some((condition) => condition.status === "False");
  if (hasFailed || (status?.loadBalancer?.ingress ?? []).length > 0) return undefined;
  return isServed ? "its load balancer to be created" : "a controller to pick it up";
}

export function nodeFacts({ spec, status }: Node): readonly Fact[] {
  const addresses = (status?.addresses ?? []).map(({ type, address }) => `${type} ${address}`);
  return [
    { name: "provider ID", value: spec?.providerID ?? "none" },
    { name: "addresses", value: addresses.join(", ") || "none" },
    { name: "pod CIDRs", value: spec?.podCIDRs?.join(", ") || "none" },
    { name: "taints", value: (spec?.taints ?? []).map(({ key, effect }) => `${key}:${effect}`).join(", ") || "none" },
  ];
}
