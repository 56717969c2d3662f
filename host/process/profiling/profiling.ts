import { type Clock, CodedError, messageOf } from "cloud-controller-host/sdk";

import { ProfileRunningError, samplePeriodMs, takeCpuProfile } from "./cpu.ts";
import { heapSummary, takeHeapSnapshot } from "./heap.ts";
import { pprofOf } from "./pprof.ts";

/** Handler of `/debug/pprof/`. */
export interface Profiling {
  /** Responds for one profile name; the empty name is the index. */
  respond(name: string, request: Request): Promise<Response>;
}

interface ProfilingOptions {
  readonly clock: Clock;
  /** Limit of heap objects for a snapshot, which blocks the event loop. Evaluated for each request. */
  readonly maxObjects: () => number;
}

interface Profile {
  /** Description or, for a missing profile, the reason. */
  readonly help: string;
  readonly take?: (query: URLSearchParams, request: Request) => Promise<Response>;
}

/** As in Go, but bounded, because reading the samples takes time in proportion to their number. */
const usualSeconds = 30;
const maxSeconds = 30;

/** The profiles of `net/http/pprof` that this runtime supports, by name. */
export function createProfiling({ clock, maxObjects }: ProfilingOptions): Profiling {
  const profiles: Readonly<Record<string, Profile>> = {
    profile: {
      help: `CPU profile: ?seconds=1…${maxSeconds} (default ${usualSeconds}), one at a time. Read it with "go tool pprof"; ?format=cpuprofile is the form of browsers' developer tools. Only JavaScript is sampled, every ${samplePeriodMs} ms: time in native code counts for the function that called it.`,
      take: (query, request) => cpuProfile(clock, query, request.signal),
    },
    heap: {
      help: "heap snapshot (.heapsnapshot) for browser developer tools, with all strings removed. The process is blocked while it is taken, so a leader with a large heap refuses it: ask a standby. ?debug=1 counts objects by type, without a pause.",
      take: (query) => heapProfile(query, maxObjects()),
    },
    ...Object.fromEntries(Object.entries(absent).map(([name, help]) => [name, { help }])),
  };
  return {
    async respond(name, request) {
      if (name === "") return text(200, indexOf(profiles));
      const profile = Object.hasOwn(profiles, name) ? profiles[name] : undefined;
      if (profile === undefined) return text(404, "Unknown profile\n");
      if (profile.take === undefined) return text(501, `no profile "${name}": ${profile.help}\n`);
      try {
        return await profile.take(new URL(request.url).searchParams, request);
      } catch (error) {
        if (request.signal.aborted) throw error;
        return refused(error);
      }
    },
  };
}

const singleThread = "all work here is done by one thread, in turns; no thread waits for another";

/** Profiles of Go that this runtime lacks. */
const absent: Readonly<Record<string, string>> = {
  allocs: "this runtime keeps no record of allocations; take two of heap?debug=1 and compare",
  block: `${singleThread}, so --contention-profiling adds nothing`,
  cmdline: "the command line is at /flagz",
  goroutine: `${singleThread}; what is under way is seen in the log, in workqueue_* and in nodejs_active_* at /metrics`,
  mutex: `${singleThread}, so --contention-profiling adds nothing`,
  symbol: "profiles carry the names of their functions",
  threadcreate: singleThread,
  trace: "this runtime has no execution tracer; OTEL_* variables turn on traces of reconciles and requests",
};

const indexOf = (profiles: Readonly<Record<string, Profile>>): string => {
  const lines = (there: boolean): readonly string[] =>
    Object.entries(profiles)
      .filter(([, { take }]) => (take !== undefined) === there)
      .map(([name, { help }]) => `  ${name}: ${help}`);
  return ["/debug/pprof/", "", "Profiles:", ...lines(true), "", "Not here:", ...lines(false), ""].join("\n");
};

async function cpuProfile(clock: Clock, query: URLSearchParams, signal: AbortSignal): Promise<Response> {
  const asked = query.get("seconds") ?? String(usualSeconds);
  const seconds = Number(asked);
  if (!/^\d{1,4}$/.test(asked) || seconds < 1 || seconds > maxSeconds)
    return text(
      400,
      `seconds must be a whole number from 1 to ${maxSeconds}, got ${JSON.stringify(asked.slice(0, 40))}\n`,
    );
  const format = query.get("format") ?? "pprof";
  if (format !== "pprof" && format !== "cpuprofile")
    return text(400, `format must be pprof or cpuprofile, got ${JSON.stringify(format.slice(0, 40))}\n`);
  const profile = await takeCpuProfile(clock, seconds, signal);
  if (format === "cpuprofile") return file("cpu.cpuprofile", "application/json", JSON.stringify(profile));
  return file("profile", "application/octet-stream", Bun.gzipSync(pprofOf(profile, samplePeriodMs)));
}

async function heapProfile(query: URLSearchParams, maxObjects: number): Promise<Response> {
  if ((query.get("debug") ?? "0") !== "0") return text(200, heapSummary());
  return file("heap.heapsnapshot", "application/json", await takeHeapSnapshot(maxObjects));
}

function refused(error: unknown): Response {
  const response = text(error instanceof CodedError ? 503 : 500, `${messageOf(error)}\n`);
  if (error instanceof ProfileRunningError) response.headers.set("Retry-After", String(error.secondsLeft));
  return response;
}

const noSniff = { "X-Content-Type-Options": "nosniff" };

const text = (status: number, body: string): Response =>
  new Response(body, { status, headers: { "Content-Type": "text/plain; charset=utf-8", ...noSniff } });

const file = (name: string, contentType: string, body: string | Uint8Array<ArrayBuffer>): Response =>
  new Response(body, {
    headers: {
      "Content-Type": contentType,
      "Content-Disposition": `attachment; filename="${name}"`,
      ...noSniff,
    },
  });
