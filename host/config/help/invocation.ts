import { join, relative } from "node:path";

import type { Environment } from "cloud-controller-host/sdk";

const mainFile = join(import.meta.dir, "..", "..", "main.ts");

/** `bun` as the user can type it: with the prefix of npx for a user who has it only through npx. */
export function bunCommand({ PATH }: Environment): string {
  const found = Bun.which("bun", PATH === undefined ? {} : { PATH });
  return found === null || /[/\\]_npx[/\\]/u.test(found) ? `npx -y bun@${Bun.version}` : "bun";
}

/** This program as the user can type it in `directory`: the installed package, or the file of a clone. */
export const programCommand = (environment: Environment, directory: string, program = mainFile): string =>
  /[/\\]node_modules[/\\]/u.test(program)
    ? `${bunCommand(environment)} x --no-install cloud-controller-host`
    : `${bunCommand(environment)} ${relative(directory, program)}`;
