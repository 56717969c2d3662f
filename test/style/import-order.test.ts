import { describe, expect, test } from "bun:test";
import { dirname, join } from "node:path";

import { importsOf } from "./imports.ts";
import { isTypeScript, projectFiles, read } from "./sources.ts";

/**
 * The host from the lowest to the highest layer: an import points down or stays in its layer. Entries of one layer are
 * side by side and do not import each other.
 */
const layers: readonly (readonly string[])[] = [
  ["host/async/"],
  ["host/config/", "host/changes/"],
  ["host/bundle/"],
  ["host/kube/", "host/process/"],
  ["host/generation/"],
  ["host/console/"],
  ["host/sandbox/"],
  ["host/run/"],
  ["host/plan/"],
  ["host/shadow/"],
  // The composition root, and the entry for tests of plugins.
  ["host/*"],
  ["host/cli/"],
  ["host/sandbox-host.ts"],
  ["host/main.ts"],
];

type Graph = ReadonlyMap<string, readonly string[]>;

const sources = projectFiles.filter(isTypeScript);

/** Each file with the files that it imports by path, types included. */
const graph: Graph = new Map(
  await Promise.all(
    sources.map(async (file) => {
      const targets = importsOf(await read(file))
        .filter(({ from }) => from.startsWith("."))
        .map(({ from }) => join(dirname(file), from))
        .filter((target) => sources.includes(target));
      return [file, [...new Set(targets)]] as const;
    }),
  ),
);

/** The layer and the entry of a file of the host, by the most specific entry; undefined outside of the host. */
function placeOf(file: string): { readonly layer: number; readonly entry: string } | undefined {
  const places = layers.flatMap((entries, layer) => entries.map((entry) => ({ layer, entry })));
  const covers = ({ entry }: { readonly entry: string }): boolean =>
    entry === "host/*" ? dirname(file) === "host" : file === entry || (entry.endsWith("/") && file.startsWith(entry));
  return places.filter(covers).toSorted((one, other) => other.entry.length - one.entry.length)[0];
}

/** Imports of the host that point to a higher layer, or from one entry of a layer to another. */
const upward = (imports: Graph): readonly string[] =>
  [...imports].flatMap(([file, targets]) => {
    const from = placeOf(file);
    return targets.flatMap((target) => {
      const to = placeOf(target);
      if (from === undefined || to === undefined) return [];
      const isUpward = to.layer > from.layer || (to.layer === from.layer && to.entry !== from.entry);
      return isUpward ? [`${file} imports ${target}`] : [];
    });
  });

/** The first cycle that is found from each node, as `a → b → a`. */
function cycles(imports: Graph): readonly string[] {
  const done = new Set<string>();
  const found: string[] = [];
  const visit = (node: string, path: readonly string[]): void => {
    const at = path.indexOf(node);
    if (at !== -1) found.push([...path.slice(at), node].join(" → "));
    if (at !== -1 || done.has(node)) return;
    for (const target of imports.get(node) ?? []) visit(target, [...path, node]);
    done.add(node);
  };
  for (const node of imports.keys()) visit(node, []);
  return found;
}

/**
 * The graphs of siblings, one per folder: its files and subfolders, where an import between two files is one between
 * the siblings that hold them.
 */
function siblingGraphs(imports: Graph): ReadonlyMap<string, Graph> {
  const graphs = new Map<string, Map<string, Set<string>>>();
  for (const [file, targets] of imports)
    for (const target of targets) {
      const [from, to] = [file.split("/"), target.split("/")];
      const depth = from.findIndex((part, index) => part !== to[index]);
      if (depth === -1) continue;
      const folder = from.slice(0, depth).join("/");
      const siblings = graphs.get(folder) ?? new Map<string, Set<string>>();
      graphs.set(folder, siblings);
      const [importer, imported] = [from, to].map((parts) => parts.slice(0, depth + 1).join("/"));
      if (importer === undefined || imported === undefined) continue;
      siblings.set(importer, (siblings.get(importer) ?? new Set()).add(imported));
    }
  return new Map(
    [...graphs].map(([folder, siblings]) => [
      folder,
      new Map([...siblings].map(([name, imported]) => [name, [...imported]] as const)),
    ]),
  );
}

const siblingCycles = (imports: Graph): readonly string[] => [...siblingGraphs(imports).values()].flatMap(cycles);

describe("imports", () => {
  test("form no cycle between siblings, files or folders, at any level of folders", () => {
    expect(siblingCycles(graph)).toEqual([]);
  });

  test("imports of the host point down its layers", () => {
    expect(upward(graph)).toEqual([]);
  });

  test("imports that point upward in the host, or sideways between entries of a layer, are found by this check", () => {
    const broken = new Map([
      ["host/async/a.ts", ["host/kube/queue/b.ts"]],
      ["host/kube/queue/b.ts", ["host/process/c.ts"]],
      ["host/process/c.ts", ["host/async/a.ts", "host/config/d.ts"]],
    ]);
    expect(upward(broken)).toEqual([
      "host/async/a.ts imports host/kube/queue/b.ts",
      "host/kube/queue/b.ts imports host/process/c.ts",
    ]);
  });

  test.each([
    ["two files", { "x/a.ts": ["x/b.ts"], "x/b.ts": ["x/a.ts"] }, ["x/a.ts → x/b.ts → x/a.ts"]],
    [
      "two folders whose files form none",
      { "x/a/one.ts": ["x/b/c/two.ts"], "x/b/c/two.ts": ["x/a/three.ts"] },
      ["x/a → x/b → x/a"],
    ],
    [
      "a folder and a file beside it",
      { "x/a/one.ts": ["x/root.ts"], "x/root.ts": ["x/a/two.ts"] },
      ["x/a → x/root.ts → x/a"],
    ],
    ["two folders of the top level", { "a/x/one.ts": ["b/two.ts"], "b/y/three.ts": ["a/four.ts"] }, ["a → b → a"]],
    ["a folder and its subfolder's file: none", { "x/a/one.ts": ["x/two.ts"], "x/two.ts": [] }, []],
  ])("imports that form a cycle are found by this check: %s", (_title, broken, expected) => {
    expect(siblingCycles(new Map(Object.entries(broken)))).toEqual([...expected]);
  });

  test("cover every folder of the host with a layer", () => {
    expect(sources.filter((file) => file.startsWith("host/") && placeOf(file) === undefined)).toEqual([]);
  });
});
