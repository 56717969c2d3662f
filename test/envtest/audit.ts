import { stat } from "node:fs/promises";

/** One request as recorded in the API server's audit log. */
export interface AuditedRequest {
  readonly user: string;
  readonly groups: readonly string[];
  /** `list`, `watch`, `get`, `create`, `update`, `patch`, `delete`, `deletecollection`. */
  readonly verb: string;
  /** `nodes`, `nodes/status`; empty for a path outside of resources. */
  readonly resource: string;
  readonly namespace: string;
  readonly name: string;
  readonly uri: string;
  readonly userAgent: string;
  /** Undefined until it has been answered: a watch that is still open has none. */
  readonly code: number | undefined;
  /** Body of a write, once it has been answered. */
  readonly body: unknown;
}

export interface AuditFilter {
  readonly user?: string;
  readonly verbs?: readonly string[];
  readonly resource?: string;
  /** Only requests received after this mark. */
  readonly since?: AuditMark;
}

/** A place in the log. */
export interface AuditMark {
  readonly offset: number;
}

export interface Audit {
  mark(): Promise<AuditMark>;
  requests(filter?: AuditFilter): Promise<readonly AuditedRequest[]>;
  /** Number of requests by verb and resource, such as `list nodes`. */
  counts(filter?: AuditFilter): Promise<Readonly<Record<string, number>>>;
}

export const writeVerbs = ["create", "update", "patch", "delete", "deletecollection"] as const;

/** All requests except those of the API server itself; writes with their bodies. */
export const auditPolicy = {
  apiVersion: "audit.k8s.io/v1",
  kind: "Policy",
  omitStages: ["ResponseStarted"],
  omitManagedFields: true,
  rules: [
    { level: "None", users: ["system:apiserver"] },
    { level: "Request", verbs: writeVerbs },
    { level: "Metadata" },
  ],
} as const;

/** A line of the log. Each request has two: when it is received, and when it has been answered. */
interface Entry {
  readonly auditID: string;
  readonly stage: string;
  readonly verb: string;
  readonly requestURI: string;
  readonly userAgent?: string;
  readonly user: { readonly username?: string; readonly groups?: readonly string[] };
  readonly objectRef?: {
    readonly resource?: string;
    readonly subresource?: string;
    readonly namespace?: string;
    readonly name?: string;
  };
  readonly responseStatus?: { readonly code?: number };
  readonly requestObject?: unknown;
}

export function openAudit(path: () => Promise<string>): Audit {
  const requests = async (filter: AuditFilter = {}): Promise<readonly AuditedRequest[]> => {
    const found = new Map<string, AuditedRequest>();
    for (const entry of await entriesOf(await path(), filter.since?.offset ?? 0)) {
      const request = requestOf(entry);
      // A request received before the mark and answered after it does not count.
      const counts = entry.stage === "RequestReceived" || found.has(entry.auditID);
      if (counts && matches(request, filter)) found.set(entry.auditID, request);
    }
    return [...found.values()];
  };
  return {
    mark: async () => ({ offset: (await stat(await path())).size }),
    requests,
    async counts(filter) {
      const counts: Record<string, number> = {};
      for (const { verb, resource, uri } of await requests(filter)) {
        const what = `${verb} ${resource || uri}`;
        counts[what] = (counts[what] ?? 0) + 1;
      }
      return counts;
    },
  };
}

async function entriesOf(path: string, offset: number): Promise<readonly Entry[]> {
  const text = await Bun.file(path).slice(offset).text();
  const complete = text.slice(0, text.lastIndexOf("\n") + 1);
  return complete.split("\n").flatMap((line): Entry[] => (line === "" ? [] : [JSON.parse(line)]));
}

function requestOf(entry: Entry): AuditedRequest {
  const { resource = "", subresource = "", namespace = "", name = "" } = entry.objectRef ?? {};
  return {
    user: entry.user.username ?? "",
    groups: entry.user.groups ?? [],
    verb: entry.verb,
    resource: subresource === "" ? resource : `${resource}/${subresource}`,
    namespace,
    name,
    uri: entry.requestURI,
    userAgent: entry.userAgent ?? "",
    code: entry.responseStatus?.code,
    body: entry.requestObject,
  };
}

const matches = (request: AuditedRequest, { user, verbs, resource }: AuditFilter): boolean =>
  (user === undefined || request.user === user) &&
  (verbs === undefined || verbs.includes(request.verb)) &&
  (resource === undefined || request.resource === resource);
