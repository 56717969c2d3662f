import { mkdir, readdir, writeFile } from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";

import { CodedError, namePattern } from "cloud-controller-host/sdk";

import { didYouMean } from "../config/suggestion.ts";
import { sandboxSteps } from "./plugin-readme.ts";
import { templates } from "./templates.ts";

const kindsText = Object.keys(templates).join("|");
export const newUsage = `Usage: cloud-controller-host new ${kindsText} NAME

Writes a plugin that type-checks, passes its test and runs in the sandbox into the folder ./NAME.
`;

const packageRoot = join(import.meta.dir, "..", "..");

/** `new KIND NAME`: writes the folder of a plugin. Returns what to do next. Throws a `CodedError`. */
export async function createPlugin(argv: readonly string[], workingDirectory: string): Promise<string> {
  const [kind = "", name = "", ...rest] = argv;
  const template = Object.hasOwn(templates, kind) ? templates[kind] : undefined;
  if (template === undefined)
    throw new CodedError(
      "InvalidKind",
      `unknown kind of plugin "${kind}"${didYouMean(kind, Object.keys(templates), "")}\n\n${newUsage}`,
    );
  if (!namePattern.test(name) || rest.length > 0)
    throw new CodedError(
      "InvalidName",
      `${nameProblem(name, rest)}: give one name of lower-case words joined by hyphens, such as my-${kind}`,
    );
  const folder = resolve(workingDirectory, name);
  await mkdir(folder, { recursive: true });
  if ((await readdir(folder)).length > 0)
    throw new CodedError("FolderNotEmpty", `${folder} is not empty: choose another name or remove the folder`);
  const files = template({ name, packagePath: relative(folder, packageRoot) });
  for (const [file, content] of Object.entries(files)) await writeFile(join(folder, file), content);
  const steps = [
    `cd ${name}`,
    ...((await isInstalledAbove(folder)) ? [] : ["bun install"]),
    "bun check && bun test",
    ...(sandboxSteps[kind]?.(name) ?? []),
  ];
  const next = steps.map((step) => `  ${step}\n`).join("");
  return `Created ${name}: ${Object.keys(files).join(", ")}\n\nNext steps:\n\n${next}`;
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
