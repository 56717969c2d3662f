import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";

import { CodedError, type Environment, messageOf, namePattern } from "cloud-controller-host/sdk";

import { bunCommand } from "../config/help/invocation.ts";
import { didYouMean } from "../config/values/suggestion.ts";
import { sandboxSteps } from "./plugin-readme.ts";
import { templates } from "./templates.ts";

const kindsText = Object.keys(templates).join("|");
export const newUsage = `Usage: cloud-controller-host new ${kindsText} NAME

Writes a plugin that type-checks, passes its test and runs in the sandbox into the folder ./NAME.
`;

const packageRoot = join(import.meta.dir, "..", "..");

/**
 * `new KIND NAME`: writes the folder of a plugin. `taken`: names and aliases of the plugins that come with the host, which
 * no other plugin may have. Returns what to do next. Throws a `CodedError`.
 */
export async function createPlugin(
  argv: readonly string[],
  workingDirectory: string,
  environment: Environment,
  taken: readonly string[] = [],
): Promise<string> {
  const [kind = "", name = "", ...rest] = argv;
  const template = Object.hasOwn(templates, kind) ? templates[kind] : undefined;
  if (template === undefined)
    throw new CodedError(
      "InvalidArgument",
      `unknown kind of plugin "${kind}"${didYouMean(kind, Object.keys(templates), "")}\n\n${newUsage}`,
    );
  if (!namePattern.test(name) || rest.length > 0)
    throw new CodedError(
      "InvalidArgument",
      `${nameProblem(name, rest)}: give one name of lower-case words joined by hyphens, such as my-${kind}`,
    );
  if (taken.includes(name))
    throw new CodedError(
      "InvalidArgument",
      `the name "${name}" is taken by a plugin that comes with the host: give another one, such as my-${name}`,
    );
  const folder = resolve(workingDirectory, name);
  const files = template({ name, packagePath: relative(folder, packageRoot) });
  await writeFolder(folder, files);
  const bun = bunCommand(environment);
  const steps = [
    `cd ${name}`,
    ...((await isInstalledAbove(folder)) ? [] : [`${bun} install`]),
    `${bun} check && ${bun} test`,
    ...(sandboxSteps[kind]?.(name, bun) ?? []),
  ];
  const next = steps.map((step) => `  ${step}\n`).join("");
  return `Created ${name}: ${Object.keys(files).join(", ")}\n\nNext steps:\n\n${next}`;
}

/** Writes all files, or leaves none behind. */
async function writeFolder(folder: string, files: Readonly<Record<string, string>>): Promise<void> {
  let created: string | undefined;
  try {
    created = await mkdir(folder, { recursive: true });
    if ((await readdir(folder)).length > 0)
      throw new CodedError("FolderNotUsable", `${folder} is not empty: choose another name or remove the folder`);
    for (const [file, content] of Object.entries(files)) await writeFile(join(folder, file), content);
  } catch (cause) {
    if (cause instanceof CodedError) throw cause;
    const written = created === undefined ? Object.keys(files).map((file) => join(folder, file)) : [created];
    await Promise.allSettled(written.map((path) => rm(path, { recursive: true, force: true })));
    throw new CodedError("FolderNotUsable", `cannot write ${folder}: ${messageOf(cause)}`, { cause });
  }
}

/** True when this package is installed in a parent folder, where Bun finds it. */
async function isInstalledAbove(folder: string): Promise<boolean> {
  const parent = dirname(folder);
  if (await Bun.file(join(parent, "node_modules", ".bin", "cloud-controller-host")).exists()) return true;
  return parent !== dirname(parent) && isInstalledAbove(parent);
}

function nameProblem(name: string, [unexpected]: readonly string[]): string {
  if (unexpected !== undefined) return `unexpected argument "${unexpected}"`;
  return name === "" ? "the plugin has no name" : `invalid name "${name}"`;
}
