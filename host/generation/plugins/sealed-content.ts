import { createHash } from "node:crypto";
import { readdir, realpath, stat } from "node:fs/promises";
import { isBuiltin } from "node:module";
import { dirname, join, relative } from "node:path";

import { CodedError, forEachConcurrently } from "cloud-controller-host/sdk";

import { readBytes } from "../../config/parse/read-text.ts";
import { type PluginTree, sourceFile, treeWorkers } from "./plugin-tree.ts";

const dependencyFolder = "node_modules";
const maxDepth = 32;

/**
 * All that a locked plugin may load: the files of its folder and the packages that its sources or its package.json name,
 * with the packages that these need, wherever Node's rules find them. Nothing else is in its copy.
 */
export interface SealedContent {
  /** Contents by real path. */
  readonly files: ReadonlyMap<string, Buffer>;
  /** Linked packages: the real path by the path in a `node_modules`. */
  readonly links: ReadonlyMap<string, string>;
  /** Of all names and contents, with names relative to the plugin's folder. */
  readonly sha256: string;
}

/** Reads a plugin's content. Each file is read once: what is hashed is what is copied. */
export async function readSealed({ folder, files }: PluginTree): Promise<SealedContent> {
  const content = new Map<string, Buffer>();
  const read = (paths: readonly string[]): Promise<void> =>
    forEachConcurrently({ workers: treeWorkers }, paths, async (path) => void content.set(path, await readBytes(path)));
  await read(files.map((file) => join(folder, file)));
  const links = new Map<string, string>();
  const packages = new Set([folder]);
  const wanted = [...content].flatMap(([path, bytes]) =>
    importsOf(path, bytes)
      .flatMap((specifier) => packageOf(specifier) ?? [])
      .map((name) => ({ name, from: path })),
  );
  const manifest = join(folder, "package.json");
  wanted.push(...dependenciesOf(content.get(manifest)).map((name) => ({ name, from: manifest })));
  for (const { name, from } of wanted) {
    const place = await findPackage(name, dirname(from));
    if (place === undefined) continue;
    const real = await realpath(place);
    if (real !== place) links.set(place, real);
    if (packages.has(real)) continue;
    packages.add(real);
    await read(await filesOf(real, "", []));
    const inner = join(real, "package.json");
    wanted.push(...dependenciesOf(content.get(inner)).map((dependency) => ({ name: dependency, from: inner })));
  }
  return { files: content, links, sha256: hashOf(folder, content, links) };
}

/** Every field has its length in front, so that no name or content can pass for another. */
function hashOf(folder: string, files: SealedContent["files"], links: SealedContent["links"]): string {
  const total = createHash("sha256");
  const add = (kind: string, path: string, content: string | Buffer): void => {
    for (const field of [kind, relative(folder, path), content])
      total.update(`${Buffer.byteLength(field)}:`).update(field);
  };
  for (const path of [...files.keys()].toSorted()) add("file", path, files.get(path) ?? "");
  for (const path of [...links.keys()].toSorted()) add("link", path, relative(folder, links.get(path) ?? ""));
  return total.digest("hex");
}

/** `name` or `@scope/name` of a bare import; undefined for a path, a URL, an alias such as `@/name` and the host's SDK. */
export function packageOf(specifier: string): string | undefined {
  const [name] = /^(?:@[\w.-]+\/)?[\w-][\w.-]*(?=\/|$)/u.exec(specifier) ?? [];
  return name === undefined || isBuiltin(specifier) || name === "cloud-controller-host" ? undefined : name;
}

/** Imports of a source file by a literal name or path. */
export function importsOf(path: string, content: Buffer): readonly string[] {
  const extension = sourceFile.exec(path)?.[1];
  if (extension === undefined) return [];
  const scanner = new Bun.Transpiler({ loader: extension === "ts" || extension === "tsx" ? extension : "jsx" });
  try {
    return scanner.scanImports(content).map((found) => found.path);
  } catch {
    // The import of the plugin reports the syntax error.
    return [];
  }
}

const dependencyKeys = ["dependencies", "optionalDependencies", "peerDependencies"];

/** Packages that a package.json names for run time. */
function dependenciesOf(manifest: Buffer | undefined): readonly string[] {
  try {
    const parsed: unknown = JSON.parse(manifest?.toString() ?? "{}");
    return dependencyKeys
      .flatMap((key) => Object.keys(Object(Reflect.get(Object(parsed), key))))
      .flatMap((name) => packageOf(name) ?? []);
  } catch {
    return [];
  }
}

/** Folder of the package that Node's resolution finds from a folder; undefined if it is not installed. */
async function findPackage(name: string, from: string): Promise<string | undefined> {
  for (let folder = from; ; folder = dirname(folder)) {
    const place = join(folder, dependencyFolder, name);
    const status = await stat(place).catch(() => undefined);
    if (status?.isDirectory() === true) return place;
    if (folder === dirname(folder)) return undefined;
  }
}

/** All files of a package, whatever their names. Its own dependencies are packages of their own. */
async function filesOf(root: string, path: string, above: readonly string[]): Promise<readonly string[]> {
  const here = join(root, path);
  if (above.length > maxDepth) throw new CodedError("PluginUnreadable", `${here}: links form a cycle`);
  const found: string[] = [];
  for (const entry of await readdir(here)) {
    const inner = join(path, entry);
    const status = await stat(join(root, inner)).catch(() => undefined);
    if (status?.isDirectory() === true && inner !== dependencyFolder)
      found.push(...(await filesOf(root, inner, [...above, here])));
    else if (status?.isFile() === true) found.push(join(root, inner));
  }
  return found;
}
