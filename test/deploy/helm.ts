import { afterAll, beforeAll, describe, setDefaultTimeout } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { parseAllDocuments } from "yaml";

import { buildOnce, goBuild, goCache } from "../envtest/go-build.ts";
import { buildTimeoutMs, describeUnlessMissing } from "./needs.ts";

export const chart = join(import.meta.dir, "..", "..", "deploy", "chart");
const source = join(import.meta.dir, "helm");
const testTimeoutMs = 120_000;

/** An object of the API as a manifest has it. */
export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly [field: string]: unknown;
}

export type Values = Readonly<Record<string, unknown>>;

export const release = "cloud-controller-host";
export const namespace = "kube-system";

/** Values without which nothing renders. */
const leastValues: Values = { image: { repository: "registry.test/cloud-controller-host" } };

/** The chart, rendered and installed by the real Helm. */
export class Helm {
  /** The program. */
  readonly path: string;
  readonly #home: string;

  constructor(path: string, home: string) {
    this.path = path;
    this.#home = home;
  }

  /** The rendered manifests; rejects with Helm's error when it refuses the values. */
  async template(values: Values = {}, ...more: readonly string[]): Promise<readonly Manifest[]> {
    const rendered = await this.run(["template", ...(await this.#release(values)), ...more]);
    return manifestsOf(rendered);
  }

  /** Installs a release, or changes it where it is there already. */
  async install(kubeconfig: string, values: Values = {}, from = chart): Promise<void> {
    await this.run(["upgrade", "--install", ...(await this.#release(values, from)), `--kubeconfig=${kubeconfig}`]);
  }

  async uninstall(kubeconfig: string): Promise<void> {
    await this.run([
      "uninstall",
      release,
      `--namespace=${namespace}`,
      "--ignore-not-found",
      `--kubeconfig=${kubeconfig}`,
    ]);
  }

  async run(args: readonly string[]): Promise<string> {
    const child = Bun.spawn([this.path, ...args], {
      env: { PATH: process.env["PATH"], HOME: this.#home },
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
    });
    const [stdout, stderr, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
    if (code !== 0) throw new Error(stderr.trim());
    return stdout;
  }

  async #release(values: Values, from = chart): Promise<readonly string[]> {
    const file = join(this.#home, `${Bun.randomUUIDv7()}.json`);
    await writeFile(file, JSON.stringify({ ...leastValues, ...values }));
    return [release, from, `--namespace=${namespace}`, `--values=${file}`];
  }
}

/** The objects of a stream of YAML documents. */
export const manifestsOf = (text: string): readonly Manifest[] =>
  parseAllDocuments(text).flatMap((document): Manifest[] => {
    if (document.errors.length > 0) throw new Error(document.errors.join("; "));
    const object: unknown = document.toJS();
    return isManifest(object) ? [object] : [];
  });

const isManifest = (value: unknown): value is Manifest =>
  typeof value === "object" && value !== null && "kind" in value && "metadata" in value;

/** The only object of a kind among the manifests. */
export function theOne(manifests: readonly Manifest[], kind: string): Manifest {
  const found = manifests.filter((manifest) => manifest.kind === kind);
  if (found.length !== 1 || found[0] === undefined) throw new Error(`${found.length} objects of kind ${kind}, not one`);
  return found[0];
}

const go = Bun.which("go");
const given = process.env["HELM"] ?? Bun.which("helm") ?? undefined;
const absent =
  given === undefined && go === null
    ? "helm is not on the PATH, HELM names none, and Go is not installed to build one"
    : undefined;

/**
 * A suite that needs Helm: what `HELM` names, else what is on the PATH, else what is built of its Go module, once for
 * each version, which takes a few minutes. Without any the tests are skipped, but never in CI.
 */
export function describeWithHelm(name: string, body: (helm: () => Helm) => void): void {
  if (absent !== undefined) return describeUnlessMissing(absent, name, () => body(unready));
  setDefaultTimeout(testTimeoutMs);
  describe(name, () => {
    let helm: Helm | undefined;
    let home = "";
    beforeAll(async () => {
      home = await mkdtemp(join(tmpdir(), "helm-"));
      helm = new Helm(given ?? (await builtHelm()), home);
    }, buildTimeoutMs);
    afterAll(() => rm(home, { recursive: true, force: true }));
    body(() => helm ?? unready());
  });
}

function unready(): never {
  throw new Error("Helm is there only in a test");
}

async function builtHelm(): Promise<string> {
  if (go === null) throw new Error("Go is not installed");
  const cache = goCache(process.env, "helm");
  const build = (folder: string): Promise<void> => {
    process.stderr.write("building Helm from its Go module, a few minutes the first time…\n");
    const output = join(folder, "helm");
    return goBuild(go, source, ["-ldflags", "-s -w", "-o", output, "helm.sh/helm/v4/cmd/helm"]);
  };
  return join(await buildOnce(cache, { go, source, program: "helm", build }), "helm");
}
