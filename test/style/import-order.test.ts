import { describe, expect, test } from "bun:test";
import { dirname, join } from "node:path";

import { importsOf } from "./imports.ts";
import { read, shippedSources } from "./sources.ts";

/**
 * The folders of the host from the lowest to the highest layer. An import points down or stays in its layer.
 * `host/kube/` and `host/process/` are side by side and know nothing of each other.
 */
const layers: readonly (readonly string[])[] = [
  ["host/async/"],
  ["host/config/"],
  ["host/kube/", "host/process/"],
  ["host/generation/"],
  ["host/sandbox/api-server/"],
  ["host/sandbox/"],
  // The composition root.
  ["host/*"],
  ["host/commands/"],
  ["host/main.ts"],
];

/** The layer and the folder of a file of the host, by the most specific entry; undefined outside of the host. */
function placeOf(file: string): { readonly layer: number; readonly folder: string } | undefined {
  const places = layers.flatMap((folders, layer) => folders.map((folder) => ({ layer, folder })));
  const covers = ({ folder }: { readonly folder: string }): boolean =>
    folder === "host/*"
      ? dirname(file) === "host"
      : file === folder || (folder.endsWith("/") && file.startsWith(folder));
  return places.filter(covers).toSorted((one, other) => other.folder.length - one.folder.length)[0];
}

/** Each file with the files that it imports by path, types included. */
const graph: ReadonlyMap<string, readonly string[]> = new Map(
  await Promise.all(
    shippedSources.map(async (file) => {
      const targets = importsOf(await read(file))
        .filter(({ from }) => from.startsWith("."))
        .map(({ from }) => join(dirname(file), from))
        .filter((target) => shippedSources.includes(target));
      return [file, [...new Set(targets)]] as const;
    }),
  ),
);

/** The first cycle that is found from each file, as `a → b → a`. */
function cycles(imports: ReadonlyMap<string, readonly string[]>): readonly string[] {
  const done = new Set<string>();
  const found: string[] = [];
  const visit = (file: string, path: readonly string[]): void => {
    const at = path.indexOf(file);
    if (at !== -1) found.push([...path.slice(at), file].join(" → "));
    if (at !== -1 || done.has(file)) return;
    for (const target of imports.get(file) ?? []) visit(target, [...path, file]);
    done.add(file);
  };
  for (const file of imports.keys()) visit(file, []);
  return found;
}

/** Imports of the host that point to a higher layer, or from one folder of a layer to another. */
const upward = (imports: ReadonlyMap<string, readonly string[]>): readonly string[] =>
  [...imports].flatMap(([file, targets]) => {
    const from = placeOf(file);
    return targets.flatMap((target) => {
      const to = placeOf(target);
      if (from === undefined || to === undefined) return [];
      const points = to.layer > from.layer || (to.layer === from.layer && to.folder !== from.folder);
      return points ? [`${file} imports ${target}`] : [];
    });
  });

/** Folders whose own files are left out: some import every folder below, and some are imported by every one. */
const roots = /^(?:host|host\/sandbox|host\/sandbox\/api-server|plugins\/[^/]+)$/u;

/** The imports among the folders of the host and of each plugin. */
function folderGraph(imports: ReadonlyMap<string, readonly string[]>): ReadonlyMap<string, readonly string[]> {
  const folderOf = (file: string): readonly string[] =>
    /^(?:host|plugins)\//u.test(file) && !roots.test(dirname(file)) ? [dirname(file)] : [];
  const folders = new Map<string, readonly string[]>();
  for (const [file, targets] of imports)
    for (const folder of folderOf(file)) {
      const others = targets.flatMap(folderOf).filter((other) => other !== folder);
      folders.set(folder, [...new Set([...(folders.get(folder) ?? []), ...others])]);
    }
  return folders;
}

describe("imports", () => {
  test("form no cycle", () => {
    expect(cycles(graph)).toEqual([]);
  });

  test("form no cycle among the folders of the host, nor among those of a plugin", () => {
    expect(cycles(folderGraph(graph))).toEqual([]);
  });

  test("of the host point down its layers", () => {
    expect(upward(graph)).toEqual([]);
  });

  test("that form a cycle or point upward are found by these checks", () => {
    const broken = new Map([
      ["host/async/a.ts", ["host/kube/queue/b.ts"]],
      ["host/kube/queue/b.ts", ["host/process/c.ts"]],
      ["host/process/c.ts", ["host/async/a.ts", "host/config/d.ts"]],
    ]);
    expect(cycles(broken)).toEqual(["host/async/a.ts → host/kube/queue/b.ts → host/process/c.ts → host/async/a.ts"]);
    expect(upward(broken)).toEqual([
      "host/async/a.ts imports host/kube/queue/b.ts",
      "host/kube/queue/b.ts imports host/process/c.ts",
    ]);
  });

  test.each(["plugins/x", "host", "host/sandbox/api-server"])(
    "that form a cycle among folders of %s are found, although no file is in a cycle",
    (root) => {
      const broken = new Map([
        [`${root}/root.ts`, [`${root}/a/one.ts`]],
        [`${root}/a/one.ts`, [`${root}/b/c/two.ts`, `${root}/shared.ts`]],
        [`${root}/b/c/two.ts`, [`${root}/a/three.ts`]],
      ]);
      expect(cycles(broken)).toEqual([]);
      expect(cycles(folderGraph(broken))).toEqual([`${root}/a → ${root}/b/c → ${root}/a`]);
    },
  );

  test("cover every folder of the host with a layer", () => {
    const uncovered = shippedSources.filter((file) => file.startsWith("host/") && placeOf(file) === undefined);
    expect(uncovered).toEqual([]);
  });
});
