import { expect, test } from "bun:test";

import { decode, Type } from "cloud-controller-host/sdk";

import { kebabCase, type PluginWithFlags } from "../../../../host/config/flags/plugin-flags.ts";
import { parse } from "../../../../host/config/parse/parse.ts";
import { problemsOf, run } from "../command-line.ts";

const schema = Type.Object(
  {
    maxRetries: Type.Integer({ default: 3, minimum: 0, description: "How often." }),
    podCIDRs: Type.Array(Type.String(), { default: ["10.0.0.0/8"] }),
    dryRun: Type.Boolean({ default: false }),
    apiToken: Type.Optional(Type.String({ writeOnly: true })),
  },
  { additionalProperties: false },
);
const plugin: PluginWithFlags = { name: "quota-controller", configSchema: schema };
const plain: PluginWithFlags = { name: "plain-controller", configSchema: undefined };

test.each([
  ["maxRetries", "max-retries"],
  ["podCIDRs", "pod-cidrs"],
  ["APIServerURL", "api-server-url"],
  ["http2", "http2"],
  ["node_name", "node-name"],
])("the option %s is the flag …-%s", (property, name) => {
  expect(kebabCase(property)).toBe(name);
});

test("decodes a plugin's flags with its schema", () => {
  const { own } = run(
    [
      "--quota-controller-max-retries=5",
      "--quota-controller-pod-cidrs=a,b",
      "--quota-controller-pod-cidrs=c",
      "--quota-controller-dry-run",
    ],
    [plugin, plain],
  );
  const given = own([plugin, plain]);
  expect([...given]).toEqual([["quota-controller", { maxRetries: "5", podCIDRs: ["a", "b", "c"], dryRun: "true" }]]);
  expect(decode(schema, given.get("quota-controller"))).toEqual({
    ok: true,
    value: { maxRetries: 5, podCIDRs: ["a", "b", "c"], dryRun: true },
    warnings: [],
  });
});

test("an option that is an object is a flag that takes JSON, and is hidden where a part of it is secret", () => {
  const limits = Type.Object({ burst: Type.Integer() }, { default: { burst: 5 } });
  const login = Type.Object({ key: Type.String({ writeOnly: true }) }, { default: { key: "" } });
  const nested = { name: "x", configSchema: Type.Object({ limits, login, zones: Type.Record(Type.String(), limits) }) };
  const argv = ['--x-limits={"burst":9}', '--x-login={"key":"hunter2"}', '--x-zones={"a":{"burst":1}}'];
  const { own, settings } = run(argv, [nested]);
  const given = own([nested]).get("x");
  expect(decode(nested.configSchema, given)).toMatchObject({
    value: { limits: { burst: 9 }, login: { key: "hunter2" }, zones: { a: { burst: 1 } } },
  });
  const shown = settings.flatMap(({ name, text }) => (name.startsWith("x-") ? `${name}=${text}` : []));
  expect(shown).toEqual(['x-limits={"burst":9}', "x-login=<hidden>", 'x-zones={"a":{"burst":1}}']);
  const problems = problemsOf(["--x-limits=5", '--x-login={"hunter2"'], [nested]);
  expect(problems).toEqual([
    'invalid argument "5" for "--x-limits" flag: must be a JSON object',
    'invalid argument <hidden> for "--x-login" flag: must be a JSON object',
  ]);
});

test("leaves unset options to the schema's defaults", () => {
  const { own } = run([], [plugin]);
  const given = own([plugin]).get("quota-controller");
  expect(given).toEqual({});
  expect(decode(schema, given)).toMatchObject({
    value: { maxRetries: 3, podCIDRs: ["10.0.0.0/8"] },
  });
});

test("never shows a secret option", () => {
  const { settings } = run(["--quota-controller-api-token=hunter2"], [plugin]);
  const shown = settings.find(({ name }) => name === "quota-controller-api-token");
  expect(shown).toEqual({ name: "quota-controller-api-token", text: "<hidden>", given: true });

  const secrets = Type.Object({ keys: Type.Array(Type.String(), { writeOnly: true }) });
  const problems = problemsOf(['--x-keys=hunter2"'], [{ name: "x", configSchema: secrets }]);
  expect(problems.join("\n")).not.toContain("hunter2");

  const items = Type.Object({ keys: Type.Array(Type.String({ writeOnly: true })) });
  const listed = run(["--y-keys=hunter2"], [{ name: "y", configSchema: items }]);
  expect(listed.settings.find(({ name }) => name === "y-keys")?.text).toBe("<hidden>");
});

test("refuses an option whose flag is already taken, naming both owners", () => {
  const clash = (name: string, property: string): PluginWithFlags => ({
    name,
    configSchema: Type.Object({ [property]: Type.String() }),
  });
  expect(problemsOf([], [clash("leader", "elect")])).toEqual([
    'plugin "leader" cannot have the flag --leader-elect for its option "elect": this program has it',
  ]);
  expect(problemsOf([], [clash("a-b", "c"), clash("a", "bC")])).toEqual([
    'plugin "a" cannot have the flag --a-b-c for its option "bC": plugin "a-b" has it',
  ]);
});

test("ignores the flags of a plugin that failed to load, but no misspelled ones, and passes them to it once it loads", () => {
  const argv = ["--quota-controller-max-retries", "5", "--quota-controller-dry-run", "--v=2"];
  const command = run(argv, [plain], { incomplete: true });
  expect(command.options.v).toBe(2);
  expect(command.notices).toEqual([
    "Unknown flag --quota-controller-max-retries ignored: it may belong to a plugin that was left out",
    "Unknown flag --quota-controller-dry-run ignored: it may belong to a plugin that was left out",
  ]);
  expect([...command.own([plain])]).toEqual([]);
  expect([...command.own([plugin, plain])]).toEqual([["quota-controller", { maxRetries: "5", dryRun: "true" }]]);
  expect(parse(["--leader-elct=false"], [], { incomplete: true })).toMatchObject({
    kind: "refused",
    problems: ["unknown flag: --leader-elct (did you mean --leader-elect?)"],
  });
});

test("does not know the flags of an unknown plugin", () => {
  expect(problemsOf(["--quota-controller-max-retries=5"])).toEqual(["unknown flag: --quota-controller-max-retries"]);
});
