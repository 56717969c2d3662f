import { join } from "node:path";

import type { TappedRequest } from "../../kit/wiretap.ts";

/** One write, in the words of the recording. */
export interface Write {
  readonly client: string;
  readonly verb: string;
  readonly uri: string;
  readonly status: number;
  readonly body: object;
}

/** A write of the recorded day, and the step that it belongs to. */
export interface RecordedWrite extends Write {
  readonly step: string;
}

interface RecordedStep {
  readonly step: string;
  readonly writes: readonly Write[];
}

const recording: readonly RecordedStep[] = await Bun.file(join(import.meta.dir, "api-writes.json")).json();

/** The day as the Go provider spent it: every write that it sent, in order. */
export const recordedDay: readonly RecordedWrite[] = recording.flatMap(({ step, writes }) =>
  writes.map((write) => ({ ...write, step })),
);

const verbs: Readonly<Record<string, string>> = { POST: "create", PUT: "update", PATCH: "patch", DELETE: "delete" };

/** A cloud's client is called after its plugin, which is Azure's but for what the test answers for. */
const clientOf = (userAgent: string): string => (userAgent.split("/").at(-1) ?? "").replace(/^golden-cloud-/, "azure-");

/** The writes among the requests of a host of ours. One that met a conflict, or whose test failed, wrote nothing: it is sent again. */
export const writesOf = (requests: readonly TappedRequest[]): readonly Write[] =>
  requests.flatMap(({ method, uri, userAgent, status, body }) => {
    const verb = verbs[method];
    if (
      verb === undefined ||
      status === undefined ||
      status === 409 ||
      status === 422 ||
      typeof body !== "object" ||
      body === null
    )
      return [];
    return [{ client: clientOf(userAgent), verb, uri, status, body }];
  });

/** Fields whose values differ from day to day. */
const passing: ReadonlySet<string> = new Set([
  "uid",
  "cloud-controller-host/serves",
  "resourceVersion",
  "creationTimestamp",
  "firstTimestamp",
  "lastTimestamp",
  "lastHeartbeatTime",
  "lastTransitionTime",
  "acquireTime",
  "renewTime",
  "holderIdentity",
]);

/** As text, so that two writes can be compared; keys are sorted, because their order says nothing. */
function normal(write: Write): string {
  const { client, verb, uri, status, body } = write;
  return `${client}: ${verb} ${withoutMoment(uri)} → ${status} ${JSON.stringify(withoutMoments(body))}`;
}

/** The name of an event ends in the moment at which it was made. */
const withoutMoment = (text: string): string =>
  text
    .replace(/\.[0-9a-f]{16}(?=$|\?|")/, ".<moment>")
    .replace(/^[\w-]+_[0-9a-f-]{36} became leader$/, "<identity> became leader");

function withoutMoments(value: unknown, key = ""): unknown {
  if (passing.has(key) && value !== null) return `<${key}>`;
  if (typeof value === "string") return withoutMoment(value);
  if (Array.isArray(value)) return value.map((item) => withoutMoments(item));
  if (typeof value !== "object" || value === null) return value;
  if ("path" in value && value.path === "/metadata/uid") return { ...value, value: "<uid>" };
  // The recording is an audit log that leaves out who owns which field.
  const entries = Object.entries(value)
    .filter(([name]) => name !== "managedFields")
    .toSorted(([one], [other]) => (one < other ? -1 : 1));
  return Object.fromEntries(entries.map(([name, item]) => [name, withoutMoments(item, name)]));
}

/**
 * Writes in the order that counts: those of one client to one object follow each other as they were sent. Between
 * clients, between objects and among events there is none that could be relied on.
 */
export function inOrder(writes: readonly Write[]): readonly string[] {
  const lines = Map.groupBy(writes, ({ client, uri }) => `${client} ${uri.replace(/\/status$/, "")}`);
  const ofEvents = ({ uri }: Write): boolean => uri.includes("/events");
  return [
    ...[...lines.values()]
      .filter(([first]) => first !== undefined && !ofEvents(first))
      .map((line) => line.map(normal).join("\n")),
    ...writes.filter(ofEvents).map(normal),
  ].toSorted();
}
