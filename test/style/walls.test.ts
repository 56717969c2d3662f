import { describe, expect, test } from "bun:test";
import { dirname, join } from "node:path";

import { type Import, importsOf, packageOf } from "./imports.ts";
import { findInFiles, projectFiles, read, shippedSources } from "./sources.ts";

const self = "cloud-controller-host";

/** Plugins of others as they would write them: they use the SDK by its published name. */
const examples = "sdk/examples/";
/** Holds the sources of new plugins as text. */
const pluginTemplates = "host/cli/templates.ts";
/** The API server in the process: in the SDK, so that plugin authors have it, but a program and not a contract. */
const apiServer = "sdk/testing/api-server/";
const isTestOfExample = (file: string): boolean => file.startsWith(examples) && file.endsWith(".test.ts");

/** The scanner adds these to every file with elements; the bundler uses Preact's. */
const jsxRuntime = /^react(?:\/jsx-dev-runtime)?$/;

interface PackageWall {
  readonly packages: RegExp;
  /** The only places, as beginnings of paths. */
  readonly only: readonly string[];
  /** Types may be imported anywhere. */
  readonly typesAnywhere?: true;
}

const packageWalls: readonly PackageWall[] = [
  { packages: /^@azure\//, only: ["plugins/azure-cloud/"] },
  { packages: /^elysia$|^@elysiajs\//, only: ["host/process/", "plugins/azure-cloud/simulator/"] },
  { packages: /^protobufjs$/, only: ["host/kube/protobuf/"] },
  { packages: /^preact$/, only: ["host/console/page/"] },
  { packages: /^@kubernetes\/client-node$/, only: ["host/kube/"], typesAnywhere: true },
];

/** `sdk`, `host` or `plugins/<name>`: what stands behind one wall. */
function roomOf(path: string): string {
  const [first = "", second = ""] = path.split("/");
  if (path.startsWith("sdk/examples/") || path.startsWith(apiServer)) return path.split("/", 3).join("/");
  return first === "plugins" ? `plugins/${second}` : first;
}

async function importsWhere(forbidden: (file: string, found: Import) => boolean): Promise<readonly string[]> {
  const all = await Promise.all(
    shippedSources.map(async (file) =>
      importsOf(await read(file))
        .filter((found) => forbidden(file, found))
        .map(({ from }) => `${file} imports ${from}`),
    ),
  );
  return all.flat();
}

describe("import walls", () => {
  test("the checks see every import that the runtime sees", async () => {
    const scanners = {
      ts: new Bun.Transpiler({ loader: "ts" }),
      tsx: new Bun.Transpiler({ loader: "tsx" }),
    };
    for (const file of shippedSources) {
      const content = await read(file);
      const seen = new Set(importsOf(content).map(({ from }) => from));
      const scanner = scanners[file.endsWith(".tsx") ? "tsx" : "ts"];
      const unseen = scanner
        .scanImports(content.replace(/^#!.*/u, ""))
        .filter(({ path }) => !seen.has(path) && !jsxRuntime.test(path));
      expect(unseen.map(({ path }) => `${file}: ${path}`)).toEqual([]);
    }
  });

  test("a project imports by path only its own files, and package.json", async () => {
    const across = (file: string, { from }: Import): boolean => {
      if (!from.startsWith(".")) return false;
      const target = join(dirname(file), from);
      return target !== "package.json" && roomOf(target) !== roomOf(file);
    };
    expect(await importsWhere(across)).toEqual([]);
  });

  test("host and plugins import the project only as cloud-controller-host/sdk, and the SDK not at all", async () => {
    const other = (file: string, { from }: Import): boolean =>
      packageOf(from) === self &&
      !isTestOfExample(file) &&
      file !== pluginTemplates &&
      ((file.startsWith("sdk/") && !file.startsWith(examples) && !file.startsWith(apiServer)) ||
        (from !== `${self}/sdk` &&
          !(from === `${self}/sdk/testing` && file.startsWith("host/sandbox/testing/")) &&
          !(from === `${self}/sdk/testing/api-server` && /^host\/sandbox(?:\/|-host\.ts)/u.test(file))));
    expect(await importsWhere(other)).toEqual([]);
  });

  for (const { packages, only, typesAnywhere } of packageWalls)
    test(`${packages.source} stays in ${only.join(", ")}`, async () => {
      const outside = (file: string, { from, isType }: Import): boolean =>
        packages.test(packageOf(from) ?? "") &&
        !only.some((place) => file.startsWith(place)) &&
        !(isType && typesAnywhere === true);
      expect(await importsWhere(outside)).toEqual([]);
    });

  test("the SDK does no I/O: it imports nothing of the runtime", async () => {
    const runtime = (file: string, { from }: Import): boolean =>
      file.startsWith("sdk/") &&
      !file.startsWith(examples) &&
      !file.startsWith(apiServer) &&
      /^(node:|bun$|bun:(?!test$))/.test(from);
    expect(await importsWhere(runtime)).toEqual([]);
  });

  test("no code of the host names a cloud, but for the table of upstream's flags", async () => {
    const host = shippedSources.filter((file) => file.startsWith("host/") && !file.startsWith("host/config/"));
    expect(await findInFiles(host, /^(?!\s*(\/?\*|\/\/)).*\b(azure|aws|gcp|openstack|hetzner)\b/i)).toEqual([]);
  });
});

describe("the shape of the project", () => {
  const topLevel = ["host", "plugins", "sdk", "test", "deploy", "bunfig.toml", "package.json", "tsconfig.json"];
  const besides = ["README.md", "bun.lock", "LICENSE"];

  test("the top level holds what the design names and nothing else", () => {
    const entries = new Set(projectFiles.map((file) => file.split("/", 1)[0] ?? ""));
    const unknown = [...entries].filter(
      (entry) => !entry.startsWith(".") && ![...topLevel, ...besides].includes(entry),
    );
    expect(unknown).toEqual([]);
  });

  const plugins = new Set(projectFiles.filter((file) => /^plugins\/[^/]+\//.test(file)).map(roomOf));

  const dataFolder = (plugin: string, file: string): readonly string[] => {
    const inside = file.startsWith(`${plugin}/`) ? file.slice(plugin.length + 1) : "";
    return inside.includes("/") && inside.endsWith(".json") ? [join(dirname(inside), "*.json")] : [];
  };

  for (const plugin of plugins)
    test(`${plugin} has its plugin.ts, README.md and tsconfig.json, and refers to the SDK alone`, async () => {
      const missing = ["plugin.ts", "README.md", "tsconfig.json"].filter(
        (name) => !projectFiles.includes(`${plugin}/${name}`),
      );
      expect(missing).toEqual([]);
      expect(JSON.parse(await read(`${plugin}/tsconfig.json`))).toEqual({
        extends: "../../tsconfig.json",
        // JSON that is imported must be named.
        include: [".", ...new Set(projectFiles.flatMap((file) => dataFolder(plugin, file)))],
        references: [{ path: "../../sdk" }],
      });
    });

  test("every top-level folder is a project of the type checker", async () => {
    const { references } = JSON.parse(await read("tsconfig.json"));
    const expected = [
      "sdk",
      "sdk/examples",
      "sdk/testing/api-server",
      "host",
      "host/console/page",
      ...plugins,
      "deploy",
      "test",
    ].map((path) => ({ path }));
    expect(new Set(references)).toEqual(new Set(expected));
  });

  test("plugins/ contains only folders", () => {
    expect(projectFiles.filter((file) => /^plugins\/[^/]+$/.test(file))).toEqual([]);
  });
});
