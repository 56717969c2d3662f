import {
  isUninitialized,
  keyOf,
  kinds,
  labelOf,
  labels,
  type Node,
  readyStatus,
  taintsOf,
} from "cloud-controller-host/sdk";
import type { RecordedRequest } from "cloud-controller-host/sdk/testing/api-server";

import { outcomeText } from "./actions.ts";
import { hostUser } from "./authorizer.ts";
import type { Sandbox } from "./open.ts";

type Print = (line: string) => void;

/**
 * Prints changes as they happen, one line each, until it is disposed of: the user's writes, nodes, load balancers, events, the
 * host's generations, and work of third-party controllers that fails. It follows the API server's changes in order, so
 * none is too short to be seen.
 */
export function printChanges({ api, host, failingWork }: Sandbox, print: Print): Disposable {
  const stack = new DisposableStack();
  stack.use(api.requests.onReply((request) => printWrite(request, print)));
  const denied = new Set<string>();
  stack.use(
    api.requests.onReply((request) => {
      const line = deniedLine(request);
      if (line !== undefined && !denied.has(line)) print(line);
      if (line !== undefined) denied.add(line);
    }),
  );
  stack.use(
    api.onChange(kinds.Node, (type, node, before) => {
      for (const line of nodeLines(type, node, before)) print(`Node ${keyOf(node)} ${line}`);
    }),
  );
  stack.use(
    api.onChange(kinds.Service, (type, { metadata, status }, before) => {
      const ip = addressesOf(status);
      if (type !== "DELETED" && ip !== addressesOf(before?.status))
        print(
          `Service ${metadata?.namespace}/${metadata?.name} ${ip === "" ? "has no address" : `is served at ${ip}`}`,
        );
    }),
  );
  stack.use(
    api.onChange(kinds.Event, (type, { involvedObject, reason, message }) => {
      if (type === "ADDED" && involvedObject?.kind !== "Lease")
        print(`Event ${reason} on ${involvedObject?.kind} ${involvedObject?.name}: ${message}`);
    }),
  );
  const failures = new LastingFailures();
  const failureTimer = setInterval(() => {
    for (const line of failures.begun(failingWork.byCause, performance.now())) print(`Work fails: ${line}`);
  }, statusPeriodMs);
  for (const timer of [statusTimer(host, print), failureTimer]) stack.defer(() => clearInterval(timer));
  return stack;
}

/** A failure that ends sooner, as a conflict does with the next attempt, is not worth a line. */
const lastingMs = 2_000;

/** The failures that have lasted for two seconds, each once. */
export class LastingFailures {
  /** By cause: when it was first seen; infinite once it is reported. */
  #since: ReadonlyMap<string, number> = new Map();

  /** The lines of those that are to be reported now, of all by cause. */
  begun(all: ReadonlyMap<string, string>, nowMs: number): readonly string[] {
    const since = new Map([...all.keys()].map((cause) => [cause, this.#since.get(cause) ?? nowMs]));
    this.#since = since;
    const due = [...all].filter(([cause]) => nowMs - (since.get(cause) ?? nowMs) >= lastingMs);
    for (const [cause] of due) since.set(cause, Number.POSITIVE_INFINITY);
    return due.map(([, line]) => line);
  }
}

const addressesOf = (
  status: { readonly loadBalancer?: { readonly ingress?: readonly { readonly ip?: string }[] } } = {},
) => (status.loadBalancer?.ingress ?? []).map(({ ip }) => ip ?? "").join(", ");

/** Client of the informers, which all controllers share. */
const sharedInformers = "shared-informers";

/** The permission that a part of the host lacks; undefined for any other request. */
function deniedLine(request: RecordedRequest): string | undefined {
  const { username, verb, resource, subresource, status, userAgent } = request;
  if (status !== 403 || username !== hostUser || resource === "") return undefined;
  const kind = subresource === "" ? resource : `${resource}/${subresource}`;
  const client = userAgent.split("/").at(-1) ?? "";
  if (client === sharedInformers) return `The informers may not ${verb} ${kind}: no plugin's permissions declare it`;
  return `${client} may not ${verb} ${kind}: its permissions do not declare it`;
}

const readVerbs = new Set(["", "get", "list", "watch"]);

function printWrite(
  { username, verb, resource, subresource, namespace, name, status }: RecordedRequest,
  print: Print,
): void {
  if (username === hostUser || username.startsWith("system:serviceaccount:") || readVerbs.has(verb)) return;
  if (resource.endsWith("reviews")) return;
  // The request of a create has no name.
  const object = name === "" && namespace !== "" ? `in ${namespace}` : `${namespace}/${name}`.replace(/^\//u, "");
  const kind = subresource === "" ? resource : `${resource}/${subresource}`;
  const result = status !== undefined && status >= 400 ? ` (failed with ${status})` : "";
  print(`${username || "unknown user"}: ${verb} ${kind} ${object}`.trimEnd() + result);
}

/** Outcomes of a reload that no other part of the status shows. */
const changesNothing: ReadonlySet<keyof typeof outcomeText> = new Set(["unchanged", "superseded"]);

/** The differences between two states of a node, in words. */
function nodeLines(type: string, node: Node, before: Node | undefined): readonly string[] {
  if (type === "DELETED") return ["deleted"];
  if (before === undefined) return [isUninitialized(node) ? "registered; waits for the cloud provider" : "registered"];
  const lines: string[] = [];
  if (isUninitialized(before) && !isUninitialized(node)) lines.push(`initialized: ${describe(node)}`);
  if (internalIP(node) !== internalIP(before)) lines.push(`address ${internalIP(node) ?? "removed"}`);
  if (readyStatus(before) !== readyStatus(node)) lines.push(`Ready=${readyStatus(node) ?? "unset"}`);
  const taints = (of: Node): readonly string[] => taintsOf(of).map(({ key, effect }) => `${key}:${effect}`);
  for (const taint of taints(node)) if (!taints(before).includes(taint)) lines.push(`tainted ${taint}`);
  for (const taint of taints(before))
    if (!taints(node).includes(taint) && !(isUninitialized(before) && !isUninitialized(node)))
      lines.push(`no longer tainted ${taint}`);
  if (node.metadata?.deletionTimestamp !== undefined && before.metadata?.deletionTimestamp === undefined)
    lines.push("is being deleted");
  return lines;
}

const internalIP = (node: Node): string | undefined =>
  node.status?.addresses?.find(({ type }) => type === "InternalIP")?.address;

function describe(node: Node): string {
  const zone = labelOf(node, labels.zone);
  const facts = [zone === undefined ? undefined : `zone ${zone}`, node.spec?.providerID];
  return facts.filter((fact) => fact !== undefined && fact !== "").join(", ") || "nothing known about its VM";
}

const statusPeriodMs = 100;

type Status = Sandbox["host"]["status"];
/** The part of a host's status that is printed. */
export type WatchedStatus = Pick<
  Status,
  | "generation"
  | "configHash"
  | "disabled"
  | "lastOutcome"
  | "lastRefusal"
  | "lastRollback"
  | "refusedPlugins"
  | "waitingFor"
  | "lastOverdueDrain"
>;

/** The host has no change notification; its status changes only with a generation. */
function statusTimer(host: Sandbox["host"], print: Print): ReturnType<typeof setTimeout> {
  let before: WatchedStatus = { ...host.status, refusedPlugins: [] };
  return setInterval(() => {
    const now = host.status;
    for (const line of statusLines(before, now)) print(line);
    before = now;
  }, statusPeriodMs);
}

/** The differences between two states of the host, in words and in the order in which they came about. */
export function statusLines(before: WatchedStatus, now: WatchedStatus): readonly string[] {
  const lines: string[] = [];
  const { lastRollback, lastRefusal, lastOverdueDrain } = now;
  const hasRolledBack = lastRollback !== undefined && lastRollback.at !== before.lastRollback?.at;
  if (now.waitingFor.length > 0 && before.waitingFor.length === 0)
    lines.push(`Waiting for ${now.waitingFor.join(", ")} to return; no controller runs meanwhile`);
  if (lastOverdueDrain !== undefined && lastOverdueDrain.at !== before.lastOverdueDrain?.at)
    lines.push(lastOverdueDrain.reason);
  if (hasRolledBack)
    lines.push(
      `Generation ${lastRollback.generation} failed, ${lastRollback.outcome}: ${lastRollback.controller}: ${lastRollback.reason}`,
    );
  else if (lastRefusal !== undefined && lastRefusal.at !== before.lastRefusal?.at)
    lines.push(`Reload refused, generation ${now.generation} continues: ${lastRefusal.reason}`);
  for (const { plugin, reason, at } of now.refusedPlugins)
    if (!before.refusedPlugins.some((known) => known.plugin === plugin && known.at === at))
      lines.push(`Plugin left out: ${plugin}: ${reason}`);
  if (now.generation !== before.generation && now.generation > 0) {
    const again = lastRollback?.replacement;
    const what = again?.generation === now.generation ? ` again with the plugins and config of ${again.of}` : "";
    lines.push(`Generation ${now.generation} runs${what} (config ${now.configHash}), under the same lease`);
  }
  const { lastOutcome } = now;
  if (lastOutcome !== undefined && lastOutcome !== before.lastOutcome && changesNothing.has(lastOutcome.result))
    lines.push(`${outcomeText[lastOutcome.result]}: ${lastOutcome.reason}`);
  if (now.disabled !== before.disabled)
    lines.push(
      now.disabled ? "The cloud provider is disabled; the lease is still held" : "The cloud provider is enabled",
    );
  return lines;
}
