import { type Decoded, messageOf } from "cloud-controller-host/sdk";

import type { Options } from "../../config/flags/options.ts";
import { readNamedFile } from "../../config/parse/document.ts";
import { decodeMigration, type LeaderMigration } from "../../config/parse/migration-config.ts";
import type { ControllerName } from "../../config/values/controller-list.ts";
import { defaultMigration, resolveName } from "./migration.ts";

const flag = "--leader-migration-config";

/** More locks than this are probably a mistake. */
const usualLocks = 2;

/** Reads the migration configs named by the flags and checks them against each other. */
export async function readMigrations(
  options: Options,
  controllers: readonly ControllerName[],
): Promise<Decoded<readonly LeaderMigration[]>> {
  const { leaderMigrationConfig: files, enableLeaderMigration, leaderElect } = options;
  if (!enableLeaderMigration) {
    const warnings = files.length === 0 ? [] : [`${flag} has no effect without --enable-leader-migration`];
    return { ok: true, value: [], warnings };
  }
  const read = await Promise.all(files.map(readMigration));
  const problems = read.flatMap((decoded) => (decoded.ok ? [] : decoded.problems));
  const given = read.flatMap((decoded) => (decoded.ok ? [decoded.value] : []));
  const migrations = files.length === 0 ? [defaultMigration] : given;
  problems.push(...lockClashes(migrations, controllers, options.leaderElectResourceName));
  if (problems.length > 0) return { ok: false, problems };
  const warnings = [
    ...(leaderElect ? [] : ["--enable-leader-migration has no effect without --leader-elect"]),
    ...migrations.flatMap((migration) => oddNames(migration, controllers)),
  ];
  if (migrations.length > usualLocks)
    warnings.push(`${flag} is given ${migrations.length} times; each further lock can be lost`);
  return { ok: true, value: migrations, warnings };
}

async function readMigration(path: string): Promise<Decoded<LeaderMigration>> {
  const description = `${flag}=${path}`;
  try {
    return decodeMigration(await readNamedFile(description, path), description);
  } catch (error) {
    return { ok: false, problems: [messageOf(error)] };
  }
}

/** Conflicts between locks: a shared Lease, or a shared controller under any of its names. */
export function lockClashes(
  migrations: readonly LeaderMigration[],
  known: readonly ControllerName[],
  mainLease: string,
): readonly string[] {
  const problems: string[] = [];
  const leases = new Set([mainLease]);
  const owners = new Map<string, string>();
  for (const { leaderName, controllerLeaders } of migrations) {
    if (leases.has(leaderName))
      problems.push(`${flag}: the lease ${leaderName} is already used by another lock; use a distinct leaderName`);
    leases.add(leaderName);
    const names = new Set(controllerLeaders.map(({ name }) => resolveName(name, known)));
    for (const name of names) {
      const owner = owners.get(name);
      if (owner === undefined) owners.set(name, leaderName);
      else
        problems.push(
          `${flag}: both ${owner} and ${leaderName} name the controller ${name}; remove it from one of them`,
        );
    }
  }
  return problems;
}

/** Warnings about entries that are valid but rarely intended. */
function oddNames({ leaderName, controllerLeaders }: LeaderMigration, known: readonly ControllerName[]): string[] {
  const warnings: string[] = [];
  const seen = new Set<string>();
  for (const { name } of controllerLeaders) {
    const resolved = resolveName(name, known);
    if (!known.some((controller) => controller.name === resolved))
      warnings.push(`leader migration ${leaderName}: unknown controller "${name}"`);
    if (seen.has(resolved))
      warnings.push(`leader migration ${leaderName}: "${name}" is named more than once; the last entry applies`);
    seen.add(resolved);
  }
  return warnings;
}
