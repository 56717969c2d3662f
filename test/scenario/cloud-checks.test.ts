import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import { runNamedCommand } from "../../host/cli/commands.ts";
import { simulateAzure, type SimulatedAzure } from "../kit/azure.ts";

setDefaultTimeout(120_000);

interface Outcome {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

async function run(name: string, flags: readonly string[]): Promise<Outcome> {
  const printed = { stdout: "", stderr: "" };
  const status = await runNamedCommand(name, flags, {
    environment: {},
    stdout: (text) => void (printed.stdout += text),
    stderr: (text) => void (printed.stderr += text),
    width: 100,
  });
  return { status, ...printed };
}

async function configOf(azure: SimulatedAzure, content: string): Promise<string> {
  const file = join(azure.folder, "checked.yaml");
  await writeFile(file, content);
  return `--cloud-config=${file}`;
}

describe("check-config", () => {
  test("accepts a valid config without a request, whatever other flags a run has", async () => {
    await using azure = await simulateAzure();
    azure.simulator.clearLog();
    const flag = `--cloud-config=${azure.config}`;
    const outcome = await run("check-config", [flag, "--leader-elect=false", "--configure-cloud-routes=false"]);
    expect(outcome).toEqual({ status: 0, stdout: `${flag}: valid\n`, stderr: "" });
    expect(azure.simulator.requests()).toEqual([]);
  });

  test("prints all problems and warnings of a config at once, without secrets, and exits with 1", async () => {
    await using azure = await simulateAzure();
    const flag = await configOf(
      azure,
      "tenantId: t\naadClientId: c\naadClientSecret: s3cr3t\nvmType: vm\nvnetNam: v\nlocation: l\nlocation: m\n",
    );
    const { status, stdout, stderr } = await run("check-config", [flag]);
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect(stderr.split("\n")).toEqual([
      `Warning: ${flag}: line 7: duplicate key location; its last value applies`,
      `Warning: ${flag}: unknown keys are ignored: vnetNam (did you mean vnetName?)`,
      "Error: 3 problems:",
      `  - ${flag}: vmType must be one of vmss, standard, vmssflex, got "vm"`,
      `  - ${flag}: subscriptionId is required`,
      `  - ${flag}: resourceGroup is required`,
      "",
    ]);
    expect(stderr).not.toContain("s3cr3t");
  });

  test.each([
    [["--cloud-config=/does/not/exist"], "no such file"],
    [[], "--cloud-config is required"],
    [["--cloud-config=x", "--cloud-provider=aws"], '--cloud-provider "aws" is not known'],
    [["--cloud-config=x", "--cloud-provider="], "--cloud-provider cannot be empty"],
    [["--no-such-flag"], "--no-such-flag"],
    [["--version"], "cannot be combined with a check"],
  ])("refuses %j in one line", async (flags, problem) => {
    const { status, stderr } = await run("check-config", flags);
    expect(status).toBe(1);
    expect(stderr).toContain(problem);
  });
});

test("check-config reports the problems of the flags and of the file at once", async () => {
  await using azure = await simulateAzure();
  const config = await configOf(azure, JSON.stringify({ vmType: "vms", subscriptionId: "s", resourceGroup: "g" }));
  const { status, stdout, stderr } = await run("check-config", ["--no-such-flag", "--v=x", config]);
  expect([status, stdout]).toEqual([1, ""]);
  const problems = [...stderr.matchAll(/^ {2}- (?:--cloud-config=\S+: )?(\S+ \S+ \S+)/gmu)].map(([, start]) => start);
  expect(problems).toEqual([
    "unknown flag: --no-such-flag",
    'invalid argument "x"',
    "vmType must be",
    "location is required",
    "no credentials for",
  ]);
  const onlyFlags = await run("check-config", ["--v=x", `--cloud-config=${azure.config}`]);
  expect([onlyFlags.status, onlyFlags.stderr.split("\n").length]).toEqual([1, 2]);
  const misspelled = await run("check-config", [`--cloud-confg=${azure.config}`]);
  expect(misspelled.stderr).toBe("Error: unknown flag: --cloud-confg (did you mean --cloud-config?)\n");
  const missing = await run("check-config", ["--cloud-provider=aws", "--cloud-config=/does/not/exist"]);
  expect(missing.stderr).toBe('Error: --cloud-provider "aws" is not known; known are azure\n');
  const controllers = await run("check-config", ["--controllers=nod", `--cloud-config=${azure.config}`]);
  expect(controllers.stderr).toStartWith('Error: --controllers: "nod" is not in the list of known controllers');
  const disabled = await configOf(
    azure,
    JSON.stringify({ disableCloudProvider: "nope", location: "l", vmType: "vms" }),
  );
  const { stderr: ofKeys } = await run("check-config", [disabled]);
  expect(ofKeys).toMatch(
    /^Error: \d problems:\n {2}- \S+: disableCloudProvider must be true or false without quotes\n/u,
  );
  expect(ofKeys).toContain("vmType must be one of");
  const unread = await run("check-config", ["--v=x", "--cloud-config=/does/not/exist"]);
  expect(unread.stderr).toMatch(
    /^Error: 2 problems:\n {2}- invalid argument .*\n {2}- --cloud-config=\S+: no such file/u,
  );
});

describe("check-credentials", () => {
  test("prints one line per read and ARM action, and exits with 0 when all are allowed", async () => {
    await using azure = await simulateAzure();
    const { status, stdout, stderr } = await run("check-credentials", [`--cloud-config=${azure.config}`]);
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    const lines = stdout.trimEnd().split("\n");
    expect(lines.length).toBeGreaterThan(30);
    expect(lines.every((line) => line.startsWith("allowed  "))).toBe(true);
    expect(lines).toContain("allowed  Microsoft.Network/routeTables/write on resource group rg0");
  });

  test("exits with 1 and names each refusal", async () => {
    await using azure = await simulateAzure();
    azure.simulator.failNext({ path: "/loadBalancers" }, { status: 403, code: "AuthorizationFailed" });
    const { status, stdout, stderr } = await run("check-credentials", [`--cloud-config=${azure.config}`]);
    expect(status).toBe(1);
    expect(stderr).toMatch(
      /^Error: 1 problem: list load balancers in rg0: 403 AuthorizationFailed.*\n1 of \d+ checks are not allowed\n$/u,
    );
    expect(stdout).toMatch(/^denied {3}list load balancers in rg0: .*AuthorizationFailed/mu);
  });

  test.each([
    ["subscriptionId", "11111111-0000-0000-0000-000000000000", "SubscriptionNotFound", "check subscriptionId and "],
    ["resourceGroup", "rgx", "ResourceGroupNotFound", "check resourceGroup and "],
  ])("prints one line and one problem for a wrong %s, and names the keys to check", async (key, wrong, code, hint) => {
    await using azure = await simulateAzure();
    const flag = await configOf(azure, azure.simulator.configWith({ [key]: wrong }));
    const { status, stdout, stderr } = await run("check-credentials", [flag]);
    expect(status).toBe(1);
    const lines = stdout.trimEnd().split("\n");
    expect(lines[0]).toBe("allowed  token from the login service");
    expect(lines[1]).toMatch(/^missing {2}list scale sets in \S+ and \d+ more: 404 /u);
    expect(lines).toHaveLength(2);
    expect(stderr).toMatch(
      new RegExp(`^Error: 1 problem: list scale sets in \\S+ and \\d+ more: 404 ${code}: .*${hint}`, "u"),
    );
    expect(stderr).toEndWith(`checks are not allowed\n`);
  });

  test("reports a virtual network that does not exist as missing, and as the one problem", async () => {
    await using azure = await simulateAzure();
    const flag = await configOf(azure, azure.simulator.configWith({ vnetName: "nope" }));
    const { stdout, stderr } = await run("check-credentials", [flag]);
    expect(stdout).toMatch(/^missing {2}read subnet subnet0: .*virtualNetworks\/nope' was not found/mu);
    expect(stderr).toMatch(
      /^Error: 1 problem: read subnet subnet0: 404 ResourceNotFound: [^\n]*\n1 of \d+ checks are not allowed\n$/u,
    );
  });

  test("lists every denied action, and counts the role that lacks them as one problem", async () => {
    await using azure = await simulateAzure({
      grants: [{ actions: ["*/read", "*/write", "*/action"], notActions: [] }],
    });
    const { stdout, stderr } = await run("check-credentials", [`--cloud-config=${azure.config}`]);
    const denied = stdout.split("\n").filter((line) => line.startsWith("denied "));
    expect(denied.length).toBeGreaterThan(3);
    expect(denied.every((line) => line.includes("/delete on resource group rg0: no role assignment grants"))).toBe(
      true,
    );
    expect(stderr).toMatch(
      /^Error: 1 problem: \S+\/delete on resource group rg0 and \d+ more: no role assignment grants this action\n\d+ of/u,
    );
  });

  test("exits with 1 and one line when the identity is refused", async () => {
    await using azure = await simulateAzure();
    const flag = await configOf(azure, azure.simulator.configWith({ aadClientSecret: "wrong-one" }));
    const { status, stderr } = await run("check-credentials", [flag]);
    expect(status).toBe(1);
    expect(stderr).toMatch(/^Error: .*client-secret.*\n$/u);
    expect(stderr).not.toContain("wrong-one");
  });
});
