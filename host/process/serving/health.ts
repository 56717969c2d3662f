import { type Clock, CodedError, type Logger, messageOf } from "cloud-controller-host/sdk";

import type { SliMetrics } from "../metrics/sli.ts";

export const healthEndpoints = ["healthz", "livez", "readyz"] as const;
export type HealthEndpoint = (typeof healthEndpoints)[number];

export interface HealthCheck {
  readonly name: string;
  /** Endpoints that run it; default: all. */
  readonly endpoints?: readonly HealthEndpoint[];
  /** Throws or rejects with the reason when unhealthy. The signal aborts at the time limit. */
  check(signal: AbortSignal): void | Promise<void>;
}

/** The checks of one generation. After the next generation has replaced it, adding has no effect. */
export interface GenerationChecks {
  add(check: HealthCheck): void;
}

export interface HealthOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly slis: SliMetrics;
  /** Time limit of one check. Default 10 s. */
  readonly timeLimitMs?: number;
}

/** The outcome of one run; `reason` is set when it failed. */
interface Result {
  readonly name: string;
  readonly reason: string | undefined;
}

const ping: HealthCheck = { name: "ping", check: () => undefined };

/**
 * The checks behind `/healthz`, `/livez` and `/readyz`: first the process's, then those of the running generation.
 * Source of the format: kubernetes/apiserver `server/healthz`.
 */
export class HealthChecks {
  readonly #options: Required<HealthOptions>;
  readonly #process = new Map<string, HealthCheck>();
  #generation = new Map<string, HealthCheck>();
  /** Checks that exceeded the time limit and have not returned: they are not called again until they do. */
  readonly #hanging = new Map<HealthCheck, number>();

  constructor(options: HealthOptions) {
    this.#options = { timeLimitMs: 10_000, ...options };
  }

  /** Adds a check that outlives every reload. */
  addProcess(check: HealthCheck): void {
    if (this.#process.has(check.name))
      throw new CodedError("Internal", `a health check named "${check.name}" already exists`);
    this.#process.set(check.name, check);
  }

  /** Replaces the checks of the previous generation, in one step. */
  replaceGeneration(checks: readonly HealthCheck[]): GenerationChecks {
    const mine = new Map(checks.map((check) => [check.name, check]));
    for (const name of this.#generation.keys())
      if (!mine.has(name) && !this.#process.has(name))
        for (const endpoint of healthEndpoints) this.#options.slis.forget(name, endpoint);
    this.#generation = mine;
    return { add: (check) => void mine.set(check.name, check) };
  }

  /** Names of the checks that an endpoint runs, in order. */
  names(endpoint: HealthEndpoint): readonly string[] {
    return this.#at(endpoint).map(({ name }) => name);
  }

  /** Runs all checks: `ok`, or one line per check when one fails or the query has `verbose`; `exclude=` skips some. */
  async respond(endpoint: HealthEndpoint, query: URLSearchParams): Promise<Response> {
    const unmatched = new Set(query.getAll("exclude"));
    const checks = this.#at(endpoint);
    const excluded = new Set(checks.map(({ name }) => name).filter((name) => unmatched.delete(name)));
    const run = checks.filter(({ name }) => !excluded.has(name));
    const results = new Map(
      (await Promise.all(run.map((check) => this.#run(check, endpoint)))).map((result) => [result.name, result]),
    );
    const failed = [...results.values()].filter(({ reason }) => reason !== undefined);
    const lines = checks.map(({ name }) => line(name, results.get(name)));
    if (unmatched.size > 0) {
      const names = [...unmatched].map((name) => JSON.stringify(name)).join(",");
      lines.push(`warn: some health checks cannot be excluded: no matches for ${names}\n`);
    }
    if (failed.length > 0) {
      this.#options.log.debug(2, `${endpoint} check failed`, {
        checks: failed.map(({ name }) => name).join(","),
        reasons: failed.map(({ name, reason }) => `${name}: ${reason ?? ""}`),
      });
      return plainText(500, `${lines.join("")}${endpoint} check failed\n`);
    }
    return plainText(200, query.has("verbose") ? `${lines.join("")}${endpoint} check passed\n` : "ok");
  }

  /** Runs one check and shows its reason; undefined when the endpoint has no such check. */
  async respondOne(endpoint: HealthEndpoint, name: string): Promise<Response | undefined> {
    const check = this.#at(endpoint).find((candidate) => candidate.name === name);
    if (check === undefined) return undefined;
    const { reason } = await this.#run(check, endpoint);
    return reason === undefined ? plainText(200, "ok") : plainText(500, `internal server error: ${reason}\n`);
  }

  #at(endpoint: HealthEndpoint): readonly HealthCheck[] {
    const generation = [...this.#generation.values()].filter(({ name }) => !this.#process.has(name));
    const counting = [...this.#process.values(), ...generation].filter(({ endpoints = healthEndpoints }) =>
      endpoints.includes(endpoint),
    );
    return counting.length === 0 ? [ping] : counting;
  }

  async #run(check: HealthCheck, endpoint: HealthEndpoint): Promise<Result> {
    const reason = await this.#reason(check);
    const { name } = check;
    this.#options.slis.record({ name, endpoint, ok: reason === undefined });
    return { name, reason };
  }

  async #reason(check: HealthCheck): Promise<string | undefined> {
    const { clock, timeLimitMs } = this.#options;
    const limit = `the check has not answered within ${timeLimitMs / 1000} s`;
    if (this.#hanging.has(check)) return limit;
    const late = new AbortController();
    const answered = new AbortController();
    const answer = (async () => check.check(late.signal))().then(
      () => undefined,
      (error: unknown) => messageOf(error),
    );
    const timeout = clock.sleep(timeLimitMs, answered.signal).then(() => limit);
    const reason = await Promise.race([answer, timeout]);
    answered.abort();
    if (reason === limit) this.#leaveHanging(check, answer);
    late.abort();
    return reason;
  }

  #leaveHanging(check: HealthCheck, answer: Promise<unknown>): void {
    this.#hanging.set(check, (this.#hanging.get(check) ?? 0) + 1);
    void answer.finally(() => {
      const left = (this.#hanging.get(check) ?? 1) - 1;
      if (left === 0) this.#hanging.delete(check);
      else this.#hanging.set(check, left);
    });
  }
}

function line(name: string, result: Result | undefined): string {
  if (result === undefined) return `[+]${name} excluded: ok\n`;
  return result.reason === undefined ? `[+]${name} ok\n` : `[-]${name} failed: reason withheld\n`;
}

const plainText = (status: number, body: string): Response =>
  new Response(body, {
    status,
    headers: { "Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff" },
  });
