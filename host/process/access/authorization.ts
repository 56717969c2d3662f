import type { Clock, KubeClient } from "cloud-controller-host/sdk";

import type { AccessMetrics } from "./metrics.ts";
import { askReview, ReviewCache, reviewKinds, type SubjectAccessReview } from "./reviews.ts";
import { groups, type User } from "./user.ts";

/** What a request asks for: here everything is a path, never a resource. */
export interface Attributes {
  /** The method in lower case. */
  readonly verb: string;
  readonly path: string;
}

export interface Decision {
  readonly result: "allowed" | "denied" | "no-opinion";
  readonly reason: string;
}

/** Rejects where nobody could decide. */
export type Authorizer = (user: User, attributes: Attributes) => Promise<Decision>;

export interface AuthorizationOptions {
  /** Undefined: nothing but the paths below is allowed. */
  readonly client: KubeClient | undefined;
  readonly clock: Clock;
  readonly metrics: AccessMetrics;
  /** Exact, or a prefix that ends in `*`; the slash at the beginning may be left out. */
  readonly alwaysAllowPaths: readonly string[];
  readonly allowedTtlMs: number;
  readonly deniedTtlMs: number;
}

const allowed: Decision = { result: "allowed", reason: "" };
const noOpinion: Decision = { result: "no-opinion", reason: "" };

const cachedDecisions = 8192;
/** Longer than this is no question that is asked twice. */
const longestKey = 10_000;

/** Source: kubernetes/apiserver `options.DelegatingAuthorizationOptions`. */
export function authorizeBy(options: AuthorizationOptions): Authorizer {
  const { client } = options;
  const isOpen = pathMatcher(options.alwaysAllowPaths);
  const reviewed = client === undefined ? undefined : reviewedBy(client, options);
  return async (user, attributes) => {
    if (user.groups.includes(groups.masters) || isOpen(attributes.path)) return allowed;
    return reviewed === undefined ? noOpinion : reviewed(user, attributes);
  };
}

function pathMatcher(paths: readonly string[]): (path: string) => boolean {
  const normal = paths.map((path) => path.replace(/^\//, ""));
  const exact = new Set(normal.filter((path) => !path.endsWith("*")));
  const prefixes = normal.filter((path) => path.endsWith("*")).map((path) => path.slice(0, -1));
  return (path) => {
    const asked = path.replace(/^\//, "");
    return exact.has(asked) || prefixes.some((prefix) => asked.startsWith(prefix));
  };
}

function reviewedBy(client: KubeClient, options: AuthorizationOptions): Authorizer {
  const { clock, metrics, allowedTtlMs, deniedTtlMs } = options;
  const cache = new ReviewCache<Decision>(clock, cachedDecisions);
  return async ({ name, uid, groups: memberships, extra }, nonResourceAttributes) => {
    const spec: SubjectAccessReview["spec"] = { user: name, uid, groups: memberships, extra, nonResourceAttributes };
    const key = JSON.stringify(spec);
    const known = cache.get(key);
    if (known !== undefined) return known;
    const { status } = await askReview({ clock, observe: (...tried) => metrics.accessReview(...tried) }, (signal) =>
      client.create(reviewKinds.SubjectAccessReview, { spec }, { signal }),
    );
    const decision = decisionOf(status);
    if (key.length <= longestKey) cache.set(key, decision, decision.result === "allowed" ? allowedTtlMs : deniedTtlMs);
    return decision;
  };
}

/** Where an answer both allows and denies, it denies. */
function decisionOf(status: SubjectAccessReview["status"]): Decision {
  const reason = status?.reason ?? "";
  if (status?.denied === true) return { result: "denied", reason };
  return { result: status?.allowed === true ? "allowed" : "no-opinion", reason };
}
