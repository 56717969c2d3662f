import { join } from "node:path";

import { buildOnce, goBuild, goCache } from "../envtest/go-build.ts";

const source = join(import.meta.dir, "promql");

export interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface Requested {
  /** In the notation of Prometheus' rule tests, one sample per minute: `up{job="x"} 1+0x10`. */
  readonly series: readonly string[];
  readonly queries: readonly string[];
  /** The minute at which the queries are asked. */
  readonly at: number;
}

/** Queries Prometheus' own engine, which is built from its Go module on first use. */
export async function askPrometheus(requested: Requested): Promise<readonly (readonly Sample[])[]> {
  const child = Bun.spawn([await built()], {
    stdin: Buffer.from(JSON.stringify(requested)),
    stdout: "pipe",
    stderr: "pipe",
  });
  const [stdout, stderr, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  if (code !== 0) throw new Error(stderr.trim());
  return JSON.parse(stdout);
}

async function built(): Promise<string> {
  const go = Bun.which("go");
  if (go === null) throw new Error("Go is not installed");
  const program = "promql";
  const build = (folder: string): Promise<void> => {
    process.stderr.write("building Prometheus' query engine from its Go module, a minute or two the first time…\n");
    return goBuild(go, source, ["-ldflags", "-s -w", "-o", join(folder, program), "."]);
  };
  return join(await buildOnce(goCache(process.env, program), { go, source, program, build }), program);
}
