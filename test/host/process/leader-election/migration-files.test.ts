import { afterEach, describe, expect, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { readCommand } from "../../../../host/cli/command.ts";
import { defaultOptions, type Options } from "../../../../host/config/flags/options.ts";
import { readMigrations } from "../../../../host/process/leader-election/migration-files.ts";
import { defaultMigration } from "../../../../host/process/leader-election/migration.ts";

const folders: string[] = [];
afterEach(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true });
});

const known = [
  { name: "node-route-controller", aliases: ["route"] },
  { name: "service-lb-controller", aliases: ["service"] },
  { name: "cloud-node-lifecycle-controller", aliases: [] },
  { name: "quota-controller", aliases: ["quota"] },
];

type Version = "v1" | "v1alpha1" | "v1beta1";

const fileText = (leaderName: string, leaders: Readonly<Record<string, string>>, version: Version = "v1"): string =>
  JSON.stringify({
    apiVersion: `controllermanager.config.k8s.io/${version}`,
    kind: "LeaderMigrationConfiguration",
    leaderName,
    ...(version !== "v1" && { resourceLock: "leases" }),
    controllerLeaders: Object.entries(leaders).map(([name, component]) => ({ name, component })),
  });

/** Reads these texts as the files of a command line with migration on. */
async function readTexts(texts: readonly string[], options: Partial<Options> = {}) {
  const folder = await mkdtemp(join(tmpdir(), "migration-files-"));
  folders.push(folder);
  const files = texts.map((_, index) => join(folder, `${index}.yaml`));
  for (const [index, text] of texts.entries()) await writeFile(files[index] ?? "", text);
  const on = { ...defaultOptions, enableLeaderMigration: true, leaderMigrationConfig: files, ...options };
  return readMigrations(on, known);
}

const problemsOf = async (...texts: readonly string[]): Promise<string> => {
  const read = await readTexts(texts);
  return read.ok ? "" : read.problems.join("\n");
};

const warningsOf = async (texts: readonly string[], options: Partial<Options> = {}): Promise<readonly string[]> => {
  const read = await readTexts(texts, options);
  return read.ok ? read.warnings : [`refused: ${read.problems.join("; ")}`];
};

describe("the options of leader migration", () => {
  test("default config: without a file the built-in one applies", async () => {
    expect(await readTexts([])).toEqual({ ok: true, value: [defaultMigration], warnings: [] });
  });

  test.each(["v1alpha1", "v1beta1", "v1"] as const)("a file of %s, not wildcard", async (version) => {
    const text = fileText("test-leader-migration", { "node-route-controller": "cloud-controller-manager" }, version);
    expect(await readTexts([text])).toEqual({
      ok: true,
      value: [
        {
          leaderName: "test-leader-migration",
          controllerLeaders: [{ name: "node-route-controller", component: "cloud-controller-manager" }],
        },
      ],
      warnings: [],
    });
  });
});

describe("the migration configs", () => {
  test("are not opened when migration is off, with a warning", async () => {
    const options = { enableLeaderMigration: false, leaderMigrationConfig: ["/no/such/file"] };
    expect(await readTexts([], options)).toEqual({
      ok: true,
      value: [],
      warnings: ["--leader-migration-config has no effect without --enable-leader-migration"],
    });
  });

  test("cause a warning without leader election", async () => {
    expect(await warningsOf([], { leaderElect: false })).toEqual([
      "--enable-leader-migration has no effect without --leader-elect",
    ]);
  });

  test("the migration configs that are unreadable or invalid are rejected together, naming flag and file", async () => {
    const read = await readTexts([], { leaderMigrationConfig: ["/no/such/file", "/"] });
    expect(read).toMatchObject({
      ok: false,
      problems: [
        expect.stringContaining("--leader-migration-config=/no/such/file: no such file; create it or correct"),
        expect.stringContaining("--leader-migration-config=/: this is a folder; name the file in it"),
      ],
    });
    const problems = await problemsOf("kind: Pod", fileText("Bad Name", {}));
    expect(problems).toContain("0.yaml: apiVersion is missing");
    expect(problems).toContain("0.yaml: kind must be LeaderMigrationConfiguration");
    expect(problems).toContain("1.yaml: leaderName must be a name");
  });

  test("may not share a lease, nor use that of the main lock", async () => {
    expect(await problemsOf(fileText("a", { route: "*" }), fileText("a", { service: "*" }))).toContain(
      "the lease a is already used by another lock",
    );
    expect(await problemsOf(fileText("cloud-controller-manager", { route: "*" }))).toContain(
      "the lease cloud-controller-manager is already used by another lock",
    );
  });

  test("may not share a controller, under any of its names", async () => {
    const kcm = "kube-controller-manager";
    for (const [one, other] of [
      ["route", "node-route-controller"],
      ["service-controller", "service"],
      ["quota", "quota-controller"],
    ] as const)
      expect(await problemsOf(fileText("a", { [one]: "*" }), fileText("b", { [other]: kcm }))).toMatch(
        /both a and b name the controller (node-route|service-lb|quota)-controller; remove it from one of them/,
      );
    expect(await problemsOf(fileText("a", { route: "*" }), fileText("b", { service: "*" }))).toBe("");
  });

  test("cause warnings for unknown and repeated names", async () => {
    expect(await warningsOf([fileText("a", { rout: "*", route: "*", "route-controller": "*" })])).toEqual([
      'leader migration a: unknown controller "rout"',
      'leader migration a: "route-controller" is named more than once; the last entry applies',
    ]);
  });

  test("the migration configs that are invalid end the command with status 1, reported with all other problems", async () => {
    let output = "";
    const stderr = (text: string): void => void (output += text);
    const argv = ["--enable-leader-migration", "--leader-migration-config=/no/such/file", "--cloud-provider=none"];
    expect(await readCommand(argv, { environment: {}, stdout: stderr, stderr, width: 100 })).toEqual({ status: 1 });
    expect(output).toContain('--cloud-provider "none" is not known');
    expect(output).toContain("--leader-migration-config=/no/such/file: no such file");
  });

  test("cause a warning from the third on", async () => {
    const texts = ["route", "service", "quota"].map((name, index) => fileText(`lock-${index}`, { [name]: "*" }));
    expect(await warningsOf(texts.slice(0, 2))).toEqual([]);
    expect(await warningsOf(texts)).toEqual([
      "--leader-migration-config is given 3 times; each further lock can be lost",
    ]);
  });
});
