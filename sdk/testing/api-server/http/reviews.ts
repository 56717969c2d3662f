import { timestamp } from "cloud-controller-host/sdk";

import { type Access, type PolicyRule, rulesOf } from "../access/rules.ts";
import { methodNotAllowed } from "../access/status.ts";
import type { Tokens, User } from "../access/tokens.ts";
import { isList, isObject, type JsonObject, objectAt, textAt } from "../json.ts";
import type { Cluster } from "../registry/cluster.ts";
import { requestSchemas } from "../schema/requests.ts";
import { readObject } from "./body.ts";
import { jsonReply } from "./replies.ts";
import type { ApiPath } from "./target.ts";

/** A kind that is answered and not stored. */
export interface ReviewKind {
  readonly group: string;
  readonly plural: string;
  readonly kind: string;
  readonly namespaced: boolean;
}

export const reviewKinds = [
  { group: "authentication.k8s.io", plural: "tokenreviews", kind: "TokenReview", namespaced: false },
  { group: "authentication.k8s.io", plural: "selfsubjectreviews", kind: "SelfSubjectReview", namespaced: false },
  { group: "authorization.k8s.io", plural: "subjectaccessreviews", kind: "SubjectAccessReview", namespaced: false },
  {
    group: "authorization.k8s.io",
    plural: "localsubjectaccessreviews",
    kind: "LocalSubjectAccessReview",
    namespaced: true,
  },
  {
    group: "authorization.k8s.io",
    plural: "selfsubjectaccessreviews",
    kind: "SelfSubjectAccessReview",
    namespaced: false,
  },
  {
    group: "authorization.k8s.io",
    plural: "selfsubjectrulesreviews",
    kind: "SelfSubjectRulesReview",
    namespaced: false,
  },
] as const satisfies readonly ReviewKind[];

type ReviewName = (typeof reviewKinds)[number]["kind"];

/** Answers authentication and access reviews, and issues service account tokens. */
export class Reviews {
  readonly #tokens: Tokens;
  readonly #cluster: Cluster;
  readonly #allows: (access: Access) => boolean;
  readonly #statusOf: Readonly<Record<ReviewName, (spec: JsonObject, user: User) => JsonObject>> = {
    TokenReview: (spec) => this.#tokenStatus(spec),
    SelfSubjectReview: (_spec, user) => ({ userInfo: userJson(user) }),
    SubjectAccessReview: (spec) => this.#accessStatus(spec, textAt(spec, "user") ?? "", textsAt(spec, "groups")),
    LocalSubjectAccessReview: (spec) => this.#accessStatus(spec, textAt(spec, "user") ?? "", textsAt(spec, "groups")),
    SelfSubjectAccessReview: (spec, { username, groups }) => this.#accessStatus(spec, username, groups),
    SelfSubjectRulesReview: (_spec, user) => rulesStatus(rulesOf(user)),
  };

  constructor(parts: {
    readonly tokens: Tokens;
    readonly cluster: Cluster;
    readonly allows: (access: Access) => boolean;
  }) {
    this.#tokens = parts.tokens;
    this.#cluster = parts.cluster;
    this.#allows = parts.allows;
  }

  /** The reply to a review or a request for a token; undefined for any other path. */
  async answer(path: ApiPath, request: Request, user: User): Promise<Response | undefined> {
    const { group, version, plural, name, subresource, verb } = path;
    if (group === "" && plural === "serviceaccounts" && subresource === "token")
      return this.#tokenFor(path, await readObject(request, requestSchemas.TokenRequest));
    const review = reviewKinds.find((kind) => kind.group === group && kind.plural === plural);
    if (review === undefined || version !== "v1" || name !== "") return undefined;
    if (verb !== "create") throw methodNotAllowed();
    const sent = await readObject(request, requestSchemas[review.kind]);
    const status = this.#statusOf[review.kind](objectAt(sent, "spec"), user);
    const { kind } = review;
    return jsonReply({ ...sent, kind, apiVersion: `${group}/v1`, metadata: objectAt(sent, "metadata"), status }, 201);
  }

  #tokenStatus(spec: JsonObject): JsonObject {
    const user = this.#tokens.authenticate(textAt(spec, "token") ?? "");
    if (user === undefined) return { authenticated: false, user: {}, error: "invalid bearer token" };
    return { authenticated: true, user: userJson(user), audiences: textsAt(spec, "audiences") };
  }

  #accessStatus(spec: JsonObject, username: string, groups: readonly string[]): JsonObject {
    const resource = objectAt(spec, "resourceAttributes");
    const other = objectAt(spec, "nonResourceAttributes");
    const attributes = isObject(spec.resourceAttributes) ? resource : other;
    const allowed = this.#allows({
      username,
      groups,
      verb: textAt(attributes, "verb") ?? "",
      path: textAt(other, "path") ?? "",
      group: textAt(resource, "group") ?? "",
      resource: [textAt(resource, "resource") ?? "", textAt(resource, "subresource") ?? ""].filter(Boolean).join("/"),
      namespace: textAt(resource, "namespace") ?? "",
      name: textAt(resource, "name") ?? "",
    });
    return { allowed };
  }

  #tokenFor({ verb, namespace, name }: ApiPath, sent: JsonObject): Response {
    if (verb !== "create") throw methodNotAllowed();
    const registry = this.#cluster.registryOf({ group: "", version: "v1", plural: "serviceaccounts" });
    const { uid } = registry.get({ namespace, name });
    const spec = objectAt(sent, "spec");
    const seconds = typeof spec.expirationSeconds === "number" ? spec.expirationSeconds : 3600;
    const expiresAt = Date.now() + seconds * 1000;
    const token = this.#tokens.issueFor(namespace, name, uid, expiresAt);
    return jsonReply(
      {
        kind: "TokenRequest",
        apiVersion: "authentication.k8s.io/v1",
        metadata: { name, namespace, creationTimestamp: timestamp(Date.now()) },
        spec: { audiences: textsAt(spec, "audiences"), expirationSeconds: seconds },
        status: { token, expirationTimestamp: timestamp(expiresAt) },
      },
      201,
    );
  }
}

const textsAt = (object: JsonObject, key: string): readonly string[] => {
  const list = object[key];
  return isList(list) ? list.filter((item) => typeof item === "string") : [];
};

const rulesStatus = (rules: readonly PolicyRule[]): JsonObject => ({
  resourceRules: rules
    .filter(({ resources }) => resources !== undefined)
    .map(({ verbs, apiGroups = [], resources = [] }) => ({ verbs, apiGroups, resources })),
  nonResourceRules: rules
    .filter(({ nonResourceURLs }) => nonResourceURLs !== undefined)
    .map(({ verbs, nonResourceURLs = [] }) => ({ verbs, nonResourceURLs })),
  incomplete: false,
});

const userJson = ({ username, uid, groups }: User): JsonObject => ({
  username,
  ...(uid === undefined ? {} : { uid }),
  groups,
});
