/**
 * Bundles what the image runs, in place: `bun deploy/bundle.ts FOLDER`. The host with the SDK becomes one file, with what
 * it imports on demand beside it, and so does each plugin. Entry points keep their paths, and source maps lead from a
 * stack trace to the files of the repository.
 */
import { existsSync } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";

import type { BunPlugin } from "bun";

/** Programs, threads and the SDK: files that are found by their path at run time. */
const hostEntries = [
  "host/main.ts",
  "host/cli/shown-plan.ts",
  "host/process/profiling/heap-worker.ts",
  "host/process/serving/self-signed-thread.ts",
  "host/process/watchdog/worker.ts",
  "sdk/index.ts",
];

/** Parts that the image does not have; `importForDevelopment` reports it when one is used. */
const development = /\/(?:(?:sandbox|simulator)\/[\w-]+|sandbox-host|new)\.ts$/u;

interface Client {
  /** The plugin that uses it. */
  readonly plugin: string;
  readonly module: string;
}

/** Clients of ARM by package. */
const clients: Readonly<Record<string, Client>> = {
  "arm-compute": { plugin: "azure-cloud", module: "computeManagementClient.js" },
  "arm-network": { plugin: "azure-cloud", module: "networkManagementClient.js" },
};

async function bundleImage(app: string): Promise<void> {
  for (const [name, client] of Object.entries(clients)) await bundleClient(app, name, client);
  const sdk = join(app, "sdk", "index.ts");
  await bundle(app, { entries: hostEntries, chunks: "host", folders: ["host", "sdk"], sdk });
  for (const name of await readdir(join(app, "plugins")))
    await bundle(join(app, "plugins", name), { entries: ["plugin.ts"], chunks: ".", folders: ["."] });
}

interface SourceMap {
  /** Paths from the working directory. */
  readonly sources: readonly string[];
}

interface Bundle {
  readonly entries: readonly string[];
  /** Folder of the code that entries share or import on demand. */
  readonly chunks: string;
  /** Folders whose sources the bundle replaces. */
  readonly folders: readonly string[];
  /** Default: an import, for which the host provides its own. */
  readonly sdk?: string;
}

async function bundle(root: string, { entries, chunks, folders, sdk }: Bundle): Promise<void> {
  const { outputs } = await Bun.build({
    root,
    entrypoints: entries.map((entry) => join(root, entry)),
    target: "bun",
    splitting: true,
    sourcemap: "linked",
    naming: { entry: "[dir]/[name].ts", chunk: join(chunks, "chunk-[hash].ts") },
    plugins: [imports(sdk), locations(join(root, chunks))],
  });
  for (const folder of folders) for (const file of sourcesIn(join(root, folder))) await rm(file);
  for (const output of outputs) {
    const path = join(root, output.path);
    await Bun.write(path, output.kind === "sourcemap" ? placed(await output.json(), path) : output);
  }
}

/** A source map as Bun reads it: with paths from its own folder, and with a text for each, of which nothing is shown. */
const placed = ({ sources, ...map }: SourceMap, path: string): string =>
  JSON.stringify({
    ...map,
    sources: sources.map((source) => relative(dirname(path), resolve(source))),
    sourcesContent: sources.map(() => ""),
  });

const sourcesIn = (folder: string): readonly string[] => [
  ...new Bun.Glob("**/*.ts").scanSync({ cwd: folder, absolute: true }),
];

/** Packages and missing parts stay imports. */
const imports = (sdk: string | undefined): BunPlugin => ({
  name: "imports",
  setup(build) {
    if (sdk !== undefined) build.onResolve({ filter: /^cloud-controller-host\/sdk$/u }, () => ({ path: sdk }));
    build.onResolve({ filter: /^[@\w]/u }, ({ path }) => ({ path, external: true }));
    build.onResolve({ filter: development }, ({ path }) => ({ path, external: true }));
  },
});

/** A module that asks for its place gets that of its source. Only code in chunks asks. */
const locations = (chunks: string): BunPlugin => ({
  name: "locations",
  setup(build) {
    build.onLoad({ filter: /\.ts$/u }, async ({ path }) => {
      const place = relative(chunks, path);
      const contents = (await Bun.file(path).text())
        .replaceAll(/\bimport\.meta\.dir\b/gu, `(import.meta.dir + ${JSON.stringify(`/${dirname(place)}`)})`)
        .replaceAll(/\bimport\.meta\.url\b/gu, `new URL(${JSON.stringify(place)}, import.meta.url).href`);
      return { contents, loader: "ts" };
    });
  },
});

/** A client of ARM without the operations that its plugin never names: most of two megabytes that each start parses. */
async function bundleClient(app: string, name: string, { plugin, module }: Client): Promise<void> {
  const texts = await Promise.all(sourcesIn(join(app, "plugins", plugin)).map((file) => Bun.file(file).text()));
  const used = new Set(texts.join("\n").match(/(?<=\.)\w+/gu));
  const folder = join(app, "node_modules", "@azure", name, "dist", "esm");
  const groups: BunPlugin = {
    name: "groups",
    setup(build) {
      build.onLoad({ filter: /ManagementClient\.js$/u }, async ({ path }) => {
        const assignment = /^\s*this\.(\w+) = _get\w+\(\s*this\._client,?\s*\);$/gmu;
        const contents = (await Bun.file(path).text()).replaceAll(assignment, (line, group: string) =>
          used.has(group) ? line : "",
        );
        return { contents, loader: "js" };
      });
    },
  };
  const { outputs } = await Bun.build({
    root: folder,
    entrypoints: [join(folder, module)],
    target: "bun",
    packages: "external",
    naming: "index.js",
    plugins: [groups],
  });
  await rm(folder, { recursive: true });
  for (const output of outputs) await Bun.write(join(folder, output.path), output);
  await Bun.write(join(folder, "package.json"), '{ "type": "module" }\n');
}

const [, , app] = process.argv;
// Sources are replaced: never those of a clone.
if (app === undefined || existsSync(join(app, "test"))) throw new Error("name the folder of the image");
await bundleImage(resolve(app));
