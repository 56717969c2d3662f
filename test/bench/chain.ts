import type { LoggedRequest } from "../../plugins/azure-cloud/simulator/http/server.ts";
import type { Figure } from "./report.ts";

type Timed = Pick<LoggedRequest, "method" | "path" | "begunMs" | "endedMs">;

interface Link {
  readonly request: Timed;
  readonly before: Link | undefined;
  readonly length: number;
}

/**
 * The longest chain of requests of which each began after the one before it had ended: what depends on replies, and what
 * waited for them needlessly.
 */
function longestChain(log: readonly Timed[]): readonly Timed[] {
  const byEnd = log.toSorted((left, right) => left.endedMs - right.endedMs);
  const links = new Map<Timed, Link>();
  let ended = 0;
  let longest: Link | undefined;
  // A later request has at least as many before it.
  let last: Link | undefined;
  for (const request of log.toSorted((left, right) => left.begunMs - right.begunMs)) {
    for (let next = byEnd[ended]; next !== undefined && next.endedMs <= request.begunMs; next = byEnd[++ended]) {
      const link = links.get(next);
      if ((link?.length ?? 0) >= (longest?.length ?? 0)) longest = link;
    }
    last = { request, before: longest, length: (longest?.length ?? 0) + 1 };
    links.set(request, last);
  }
  const chain: Timed[] = [];
  for (; last !== undefined; last = last.before) chain.unshift(last.request);
  return chain;
}

/** The time that the longest chain takes at that latency: no address can come earlier without a shorter one. */
export function chainFigure(log: readonly Timed[], name: string, latencyMs: number): Figure {
  const chain = longestChain(log);
  return { name, value: (chain.length * latencyMs) / 1000, unit: `s for ${chain.length} in sequence: ${named(chain)}` };
}

/** Equal ones in a row are counted. */
function named(chain: readonly Timed[]): string {
  const runs: { name: string; count: number }[] = [];
  for (const { method, path } of chain) {
    const name = `${method} ${nameOf(path)}`;
    const last = runs.at(-1);
    if (last?.name === name) last.count += 1;
    else runs.push({ name, count: 1 });
  }
  return runs.map(({ name, count }) => (count === 1 ? name : `${name} × ${count}`)).join(", ");
}

/** Kind of resource: the last segment of a list, the one before that of a single resource. */
function nameOf(path: string): string {
  const segments = path.split("/").filter(Boolean);
  return segments.at(segments.length % 2 === 1 ? -1 : -2) ?? "";
}
