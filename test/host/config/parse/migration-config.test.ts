import { describe, expect, test } from "bun:test";

import * as fc from "fast-check";

import { decodeMigration, type LeaderMigration } from "../../../../host/config/parse/migration-config.ts";

const source = "--leader-migration-config=/migration.yaml";
const header = (version: string): string =>
  `apiVersion: controllermanager.config.k8s.io/${version}\nkind: LeaderMigrationConfiguration\n`;

const problemsOf = (content: string): readonly string[] => {
  const decoded = decodeMigration(content, source);
  return decoded.ok ? [] : decoded.problems;
};

describe("reading a leader migration configuration", () => {
  const read: readonly [promise: string, content: string, migration: LeaderMigration][] = [
    [
      "basic",
      `${header("v1alpha1")}leaderName: migration-120-to-121\nresourceLock: leases\ncontrollerLeaders: []\n`,
      { leaderName: "migration-120-to-121", controllerLeaders: [] },
    ],
    [
      "with leaders",
      `${header("v1beta1")}leaderName: migration\nresourceLock: leases
controllerLeaders:
  - name: route-controller
    component: kube-controller-manager
  - name: service-controller
    component: "*"
`,
      {
        leaderName: "migration",
        controllerLeaders: [
          { name: "route-controller", component: "kube-controller-manager" },
          { name: "service-controller", component: "*" },
        ],
      },
    ],
    [
      "without leaders, written as null",
      `${header("v1")}leaderName: migration\ncontrollerLeaders:\n`,
      { leaderName: "migration", controllerLeaders: [] },
    ],
    [
      "as JSON",
      '{"apiVersion":"controllermanager.config.k8s.io/v1","kind":"LeaderMigrationConfiguration","leaderName":"a","controllerLeaders":[{"name":"b","component":"*"}]}',
      { leaderName: "a", controllerLeaders: [{ name: "b", component: "*" }] },
    ],
  ];
  test.each(read)("%s is read", (_promise, content, migration) => {
    expect(decodeMigration(content, source)).toEqual({ ok: true, value: migration, warnings: [] });
  });

  const refused: readonly [promise: string, content: string, problem: string][] = [
    ["an empty file", "", "it is empty; write a LeaderMigrationConfiguration there"],
    ["a list", "- a\n", "it must be a mapping of keys to values"],
    [
      "the wrong kind",
      "apiVersion: controllermanager.config.k8s.io/v1\nkind: Pod\nleaderName: a\n",
      'kind must be "LeaderMigrationConfiguration", got "Pod"',
    ],
    ["a missing kind", "apiVersion: controllermanager.config.k8s.io/v1\nleaderName: a\n", "kind is missing"],
    ["an unknown version", `${header("v2")}leaderName: a\n`, 'apiVersion "controllermanager.config.k8s.io/v2"'],
    ["an unknown field", `${header("v1")}leaderName: a\nfoo: bar\n`, "foo is an unknown field; known are apiVersion"],
    ["a field in the wrong case", `${header("v1")}leadername: a\n`, "leadername is an unknown field"],
    [
      "a lock's kind in v1, which has none",
      `${header("v1")}leaderName: a\nresourceLock: leases\n`,
      "resourceLock is an",
    ],
    ["a duplicate field", `${header("v1")}leaderName: a\nleaderName: b\n`, "line 4: duplicate key"],
    [
      "a bare star, which YAML reads as an alias",
      `${header("v1")}leaderName: a\ncontrollerLeaders:\n  - name: b\n    component: *\n`,
      'line 6: bad alias; write a bare star in quotes: component: "*"',
    ],
    ["two documents", `${header("v1")}leaderName: a\n---\nleaderName: b\n`, "line 4: a second document begins"],
  ];
  test.each(refused)("%s is refused, naming the file", (_promise, content, problem) => {
    const problems = problemsOf(content);
    expect(problems.join("\n")).toContain(problem);
    expect(problems.every((one) => one.startsWith(`${source}: `) && !one.includes("\n"))).toBe(true);
  });
});

describe("validating a leader migration configuration", () => {
  const cases: readonly [promise: string, content: string, problems: readonly string[]][] = [
    ["an empty name", `${header("v1")}leaderName: ""\n`, ["leaderName is missing"]],
    ["no name", header("v1"), ["leaderName is missing"]],
    [
      "a name that is none of an object",
      `${header("v1")}leaderName: My Lease\n`,
      ['leaderName must be a name of lower-case letters, digits, "-" and ".", got "My Lease"'],
    ],
    [
      "an unknown lock",
      `${header("v1beta1")}leaderName: a\nresourceLock: invalid\n`,
      ['resourceLock must be "leases", got "invalid"'],
    ],
    ["no lock, where the version asks for one", `${header("v1alpha1")}leaderName: a\n`, ["resourceLock is missing"]],
    [
      "endpoints, which upstream lets pass and then dies of",
      `${header("v1alpha1")}leaderName: a\nresourceLock: endpoints\n`,
      [
        'resourceLock must be "leases": locks in Endpoints are no longer supported; set leases here and in the config of every other component',
      ],
    ],
    [
      "several at once",
      `${header("v1")}controllerLeaders: [{ name: a }, { component: "*", name: 5 }, { name: "", component: b, x: 1 }]\n`,
      [
        "leaderName is missing",
        "controllerLeaders[0].component is missing",
        "controllerLeaders[1].name must be of type string, got 5",
        "controllerLeaders[2].x is an unknown field; known are name, component",
        "controllerLeaders[2].name is missing",
      ],
    ],
  ];
  test.each(cases)("%s is refused by path, all problems together", (_promise, content, problems) => {
    expect(problemsOf(content)).toEqual(problems.map((problem) => `${source}: ${problem}`));
  });
});

test("decodes or refuses any text, naming the file", () => {
  const junk = fc.oneof(
    fc.string(),
    fc.json(),
    fc.tuple(fc.constantFrom("v1", "v1beta1"), fc.json()).map(([version, value]) => header(version) + `x: ${value}`),
    fc
      .record({ leaderName: fc.jsonValue(), controllerLeaders: fc.jsonValue(), resourceLock: fc.jsonValue() })
      .map((fields) => JSON.stringify({ apiVersion: "controllermanager.config.k8s.io/v1beta1", ...fields })),
  );
  fc.assert(
    fc.property(junk, (content) => {
      const decoded = decodeMigration(content, source);
      if (decoded.ok) return typeof decoded.value.leaderName === "string";
      return decoded.problems.length > 0 && decoded.problems.every((problem) => problem.startsWith(source));
    }),
    { seed: 20, numRuns: 500 },
  );
});
