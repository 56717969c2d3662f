import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { errorCodes } from "cloud-controller-host/sdk";

import { runNamedCommand } from "../../../host/cli/commands.ts";
import { completionUsage } from "../../../host/cli/completion.ts";
import { consoleUsage } from "../../../host/cli/console.ts";
import { explainUsage } from "../../../host/cli/explain.ts";
import { createPlugin } from "../../../host/cli/new.ts";
import { planUsage } from "../../../host/cli/plan.ts";
import { pluginsUsage } from "../../../host/cli/plugins.ts";
import { rbacUsage } from "../../../host/cli/rbac.ts";
import { statusUsage } from "../../../host/cli/status.ts";
import { commandNames } from "../../../host/config/help/commands.ts";
import { wrapUsage } from "../../../host/config/help/wrap.ts";
import { didYouMean } from "../../../host/config/values/suggestion.ts";
import { configSections } from "../../../plugins/azure-cloud/config/schema.ts";
import { annotationPrefix } from "../../../plugins/azure-cloud/load-balancer/service/annotation-rows.ts";
import { annotations, portAnnotations } from "../../../plugins/azure-cloud/load-balancer/service/annotations.ts";

const pages = {
  completion: completionUsage,
  console: consoleUsage,
  explain: explainUsage,
  plan: planUsage,
  plugins: pluginsUsage,
  rbac: rbacUsage,
  status: statusUsage,
};

let folder = "";
/** Bun is on the PATH, not only in npx's cache. */
let environment: { readonly PATH: string };
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "commands-"));
  environment = { PATH: join(folder, "bin") };
  await mkdir(environment.PATH);
  await symlink(process.execPath, join(environment.PATH, "bun"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

async function runAt(width: number, name: string, ...argv: readonly string[]) {
  let [stdout, stderr] = ["", ""];
  const status = await runNamedCommand(name, argv, {
    environment: {},
    stdout: (text) => void (stdout += text),
    stderr: (text) => void (stderr += text),
    width,
  });
  return { status, stdout, stderr };
}

const run = (name: string, ...argv: readonly string[]) => runAt(100, name, ...argv);

test("version prints the version", async () => {
  expect(await run("version")).toEqual({
    status: 0,
    stdout: expect.stringMatching(/^cloud-controller-host v\d+\.\d+\.\d+\n$/u),
    stderr: "",
  });
});

describe("help", () => {
  test("prints all flags and the commands without a topic", async () => {
    const { stdout } = await run("help");
    expect(stdout).toContain("--leader-elect ");
    expect(stdout).toMatch(/Commands:\n {2}sandbox .*\n {2}new /u);
  });

  test("prints one flag, with or without dashes", async () => {
    for (const topic of ["leader-elect", "--leader-elect"]) {
      const { stdout } = await run("help", topic);
      expect(stdout).toStartWith("      --leader-elect ");
      expect(stdout).not.toContain("--leader-elect-lease-duration");
    }
  });

  test("prints one group of flags, those of a plugin too", async () => {
    const { stdout } = await run("help", "cloud-node-lifecycle-controller");
    expect(stdout).toContain("--cloud-node-lifecycle-controller-grace-period-seconds");
    expect(stdout).not.toContain("--leader-elect ");
  });

  test("prints the usage of a command, the same as the command's --help", async () => {
    const usages = new Map<string, string>();
    for (const command of commandNames) {
      const { status, stdout } = await run("help", command);
      expect([command, status, stdout]).toEqual([
        command,
        0,
        expect.stringContaining(`Usage: cloud-controller-host ${command}`),
      ]);
      usages.set(command, stdout);
    }
    for (const [name, text] of Object.entries(pages)) expect(usages.get(name)).toBe(wrapUsage(text, 100));
    for (const command of commandNames.filter((name) => name !== "sandbox"))
      for (const flag of ["--help", "-h"])
        expect([command, await run(command, flag)]).toEqual([
          command,
          { status: 0, stdout: usages.get(command) ?? "", stderr: "" },
        ]);
  });

  test.each([60, 80, 120])("fits a terminal of %d columns, and loses no word of a command's page", async (width) => {
    for (const [command, page] of Object.entries(pages)) {
      const { stdout } = await runAt(width, command, "--help");
      expect(stdout.split("\n").filter((line) => line.length > width)).toEqual([]);
      expect(stdout.split(/\s+/u)).toEqual(page.split(/\s+/u));
    }
  });

  test("keeps the text of an option in its column, and paragraphs apart", async () => {
    const { stdout } = await runAt(80, "plan", "--help");
    expect(stdout).toContain(
      "  --bundle=FILE               also write what was read, without secrets: a bug\n" +
        "                              report with its reproduction\n",
    );
    expect(stdout).toMatch(/; see rbac --plan\.\n\n {2}--output/u);
  });

  test("shows the usage of a command whose further arguments are incomplete", async () => {
    for (const [command, argument] of Object.entries({ plugins: "lock", plan: "--output=text", rbac: "--plan" }))
      expect((await run(command, argument, "--help")).stdout).toStartWith(`Usage: cloud-controller-host ${command} `);
    expect((await run("completion", "bash", "--help")).stdout).not.toContain("Usage:");
    for (const command of ["check-config", "check-credentials", "explain", "plugins", "rbac", "status", "completion"])
      expect([command, await run(command, "--help=true")]).toEqual([command, await run(command, "--help")]);
    expect((await run("rbac", "--help=false", "--plna")).stderr).toContain("did you mean --plan?");
  });

  test("explains all error codes, or one of them", async () => {
    const [{ stdout }, one] = [await run("help", "errors"), await run("help", "PortConflict")];
    for (const [code, { meaning, remedy }] of errorCodes)
      expect(stdout).toContain(`${code}\n      ${meaning} ${remedy}`);
    expect(one.stdout.split("\n")).toHaveLength(3);
    expect(stdout).toContain(one.stdout);
  });

  test("explains all annotations of Services, or one of them, with or without its prefix", async () => {
    const { stdout } = await run("help", "annotations");
    for (const { key, values } of [...Object.values(annotations), ...Object.values(portAnnotations)])
      expect(stdout).toMatch(
        new RegExp(
          `  ${RegExp.escape(annotationPrefix + key)}\\n.*\\n      Values: ${RegExp.escape(values.replaceAll("`", ""))}`,
          "u",
        ),
      );
    const internal = `  service.beta.kubernetes.io/azure-load-balancer-internal
      Internal load balancer in a subnet of the cluster's virtual network.
      Values: true, exactly (default false). Invalid: ignored, with a warning.
`;
    expect((await run("help", "azure-load-balancer-internal")).stdout).toBe(internal);
    expect((await run("help", "service.beta.kubernetes.io/azure-load-balancer-internal")).stdout).toBe(internal);
    expect((await run("help", "azure-loadbalancer-internal")).stderr).toContain(
      "(did you mean azure-load-balancer-internal?)",
    );
  });

  test("explains the annotation of a port by the key that a Service has", async () => {
    const { stdout } = await run("help", "port_<port>_no_probe_rule");
    expect(stdout).toStartWith("  service.beta.kubernetes.io/port_<port>_no_probe_rule\n");
    for (const topic of ["port_443_no_probe_rule", "service.beta.kubernetes.io/port_80_no_probe_rule"])
      expect((await run("help", topic)).stdout).toBe(stdout);
  });

  test("explains the key of an item of a list, as the problems of a config name it", async () => {
    const { stdout } = await run("help", "multipleStandardLoadBalancerConfigurations[].primaryVMSet");
    expect(stdout).toContain("VM set whose nodes always belong to this load balancer; unique.");
    expect((await run("help", "multipleStandardLoadBalancerConfigurations[1].primaryVMSet")).stdout).toBe(stdout);
  });

  test("explains all keys of the cloud config, or one of them in any case, also inside of another key", async () => {
    const { stdout } = await run("help", "config");
    for (const keys of Object.values(configSections))
      for (const [key, { description = "" }] of Object.entries(keys))
        expect(stdout).toContain(`  ${key}\n      ${description}`);
    const sku = `  loadBalancerSku
      SKU of load balancers and public IP addresses.
      Values: standard, basic, service (default standard).
`;
    for (const topic of ["loadBalancerSku", "loadbalancersku"]) expect((await run("help", topic)).stdout).toBe(sku);
    const vault = "  auxiliaryTokenProvider.vaultName\n      Name of the key vault.\n      Type: string.\n";
    for (const topic of ["auxiliaryTokenProvider.vaultName", "vaultName"])
      expect((await run("help", topic)).stdout).toBe(vault);
    expect((await run("help", "loadBalancerSuk")).stderr).toContain("(did you mean loadBalancerSku?)");
  });

  test("loads the plugins once to explain a topic", async () => {
    const directory = join(folder, "counted");
    await Bun.write(
      join(directory, "counted", "plugin.ts"),
      `import { defineController, skipped } from "cloud-controller-host/sdk";
       globalThis.timesLoaded = (globalThis.timesLoaded ?? 0) + 1;
       export default defineController({ name: "counted", construct: () => () => skipped("a test") });`,
    );
    const { stdout } = await run("help", "azure-load-balancer-internal", `--plugin-dir=${directory}`);
    expect([Reflect.get(globalThis, "timesLoaded"), stdout.includes("Internal load balancer")]).toEqual([1, true]);
  });

  test("prints the remedy for a flag that Kubernetes has removed", async () => {
    expect(await run("help", "port")).toMatchObject({
      status: 0,
      stdout: "  --port\n      removed from Kubernetes; use --secure-port\n",
    });
    expect((await run("help", "--logtostderr")).stdout).toContain("the log goes to standard error: leave it out\n");
  });

  test("suggests a topic for a misspelled one", async () => {
    const { status, stderr } = await run("help", "leader-elct");
    expect(status).toBe(1);
    expect(stderr).toContain('unknown help topic "leader-elct" (did you mean leader-elect?)');
    expect((await run("help", "annotatoins")).stderr).toContain("(did you mean annotations?)");
  });
});

test("status names its options when it is given another one", async () => {
  const { status, stderr } = await run("status", "--cloud-config=FILE");
  expect([status, stderr]).toEqual([
    1,
    "Error: status: Unknown option '--cloud-config'; its options are --kubeconfig, --namespace, --leader-elect-resource-name\n",
  ]);
});

test("version refuses what it would ignore", async () => {
  const { status, stderr } = await run("version", "--json");
  expect([status, stderr]).toEqual([1, 'Error: version: unexpected argument "--json"\n']);
});

test("explain refuses a token for no leader", async () => {
  const { status, stderr } = await run("explain", "node", "n", "--leader-token-file=FILE");
  expect([status, stderr]).toEqual([1, "Error: cannot explain: --leader-token-file: needs --leader-url=URL\n"]);
});

describe("completion", () => {
  for (const shell of ["bash", "zsh", "fish"])
    test(`completion for ${shell} names every command and flag`, async () => {
      const { stdout } = await run("completion", shell);
      const dashes = shell === "fish" ? "-l " : "--";
      for (const flag of ["cloud-config", "cloud-node-lifecycle-controller-grace-period-seconds"])
        expect(stdout).toContain(`${dashes}${flag}`);
      expect(stdout).toContain(
        "sandbox new check-config check-credentials console explain plan plugins rbac status version help completion",
      );
    });

  test("completion for bash completes a flag", async () => {
    const script = join(folder, "completion.bash");
    await writeFile(script, (await run("completion", "bash")).stdout);
    const words = `source ${script}; COMP_WORDS=(cloud-controller-host --cloud-conf); COMP_CWORD=1; _cloud_controller_host; echo "\${COMPREPLY[@]}"`;
    const child = Bun.spawn(["bash", "-c", words], { stdout: "pipe" });
    expect(await child.stdout.text()).toContain("--cloud-config");
  });

  test("names the shells for an unknown one", async () => {
    expect((await run("completion", "bsh")).stderr).toBe('Error: unknown shell "bsh": use completion bash|zsh|fish\n');
    expect((await run("completion")).stderr).toBe("Error: no shell given: use completion bash|zsh|fish\n");
  });
});

describe("rbac", () => {
  test("needs no cloud config and no CIDR, and prints only what the enabled controllers declare", async () => {
    const { status, stdout } = await run("rbac", "--controllers=node-route-controller");
    expect(status).toBe(0);
    expect(stdout).toContain("  # node-route-controller\n");
    expect(stdout).not.toContain("service-lb-controller");
    expect(stdout).not.toContain("WebhookConfiguration");
    expect(stdout).toContain('resourceNames: ["azure-cloud-provider"]');
    const { stdout: withFile } = await run("rbac", "--controllers=node-route-controller", "--cloud-config=/none");
    expect(withFile).not.toContain("secrets");
  });

  test("prints the configurations of the enabled webhooks", async () => {
    const flags = [
      `--plugin-dir=${join(import.meta.dir, "../../../sdk/examples")}`,
      "--controllers=cloud-node-controller",
    ];
    expect((await run("rbac", ...flags)).stdout).not.toContain("WebhookConfiguration");
    const { stdout } = await run("rbac", ...flags, "--webhooks=internal-load-balancers");
    expect(stdout).toContain("kind: ValidatingWebhookConfiguration");
    expect(stdout).toContain("path: /internal-load-balancers");
  });

  test("prints the role of one reader, and the host's own where a switch is off", async () => {
    const own = await run("rbac", "--controllers=node-route-controller");
    expect(await run("rbac", "--controllers=node-route-controller", "--plan=false", "--console=false")).toEqual(own);
    expect(await run("rbac", "--plan", "--console=yes")).toEqual({
      status: 1,
      stdout: "",
      stderr: "Error: --console=yes: must be true or false\n",
    });
    expect((await run("rbac", "--plan", "--console")).stderr).toContain("--plan and --console print different roles");
  });

  test("reports every problem at once", async () => {
    expect(await run("rbac", "--controllers=cloud-nodes", "--cloud-provider=none")).toEqual({
      status: 1,
      stdout: "",
      stderr: expect.stringMatching(
        /^Error: 2 problems:\n {2}- --controllers: "cloud-nodes" .*\n {2}- --cloud-provider "none"/u,
      ),
    });
  });
});

describe("the own options of a command", () => {
  const cases: readonly (readonly [command: string, argv: readonly string[], problems: readonly string[]])[] = [
    ["plan", ["--output", "yaml", "--plan-timout=5"], ["--output=yaml: must be text or json", "mean --plan-timeout?"]],
    ["explain", ["node", "n", "--ouput", "json"], ["unknown option --ouput (did you mean --output?)"]],
    ["explain", ["node", "--output", "yaml", "n"], ["--output=yaml: must be text or json"]],
    [
      "explain",
      ["service", "web", "--output=yaml", "--from=", "--leader-token-file=FILE"],
      [
        '4 problems:\n  - the Service "web" has no namespace',
        "--output=yaml: must be text or json",
        "--from: name a file",
        "--leader-token-file: needs --leader-url=URL",
      ],
    ],
    [
      "explain",
      ["node", "n", "--leader-url=", "--leader-token-file="],
      [
        "2 problems:\n  - --leader-url: name the URL of the leader's secure port, such as https://127.0.0.1:10258",
        "--leader-token-file: name a file",
      ],
    ],
    ["rbac", ["--version"], ["Error: --version cannot be combined with rbac\n"]],
    ["rbac", ["--plna"], ["unknown option --plna (did you mean --plan?)"]],
  ];
  test.each(cases)("%s %p is refused with what is wrong about it", async (command, argv, problems) => {
    const { status, stdout, stderr } = await run(command, ...argv);
    expect([status, stdout]).toEqual([1, ""]);
    for (const problem of problems) expect(stderr).toContain(problem);
  });
});

test("suggests a command for a misspelled one", async () => {
  expect((await run("hlep")).stderr).toStartWith('Error: unknown command "hlep" (did you mean help?)');
});

describe("new", () => {
  test.each([
    [["kontroller", "x"], 'unknown kind of plugin "kontroller" (did you mean controller?)'],
    [["controller", "My Plugin"], 'invalid name "My Plugin"'],
    [["controller"], "the plugin has no name"],
    [["cloud", "../escape"], 'invalid name "../escape"'],
    [["cloud", "a", "b"], 'unexpected argument "b"'],
  ])("%p is refused", async (argv, problem) => {
    await expect(createPlugin(argv, folder, environment)).rejects.toThrow(problem);
  });

  test.each(["cloud-node-controller", "cloud-node", "node-ipam", "azure"])(
    "the name %s is refused, which the host has itself",
    async (name) => {
      const { status, stderr } = await run("new", "controller", name);
      expect(stderr).toContain(`the name "${name}" is taken by a plugin that comes with the host`);
      expect([status, await Bun.file(join(process.cwd(), name, "plugin.ts")).exists()]).toEqual([1, false]);
    },
  );

  test("prints its next steps with npx for a user who has Bun only through npx", async () => {
    const text = await createPlugin(["controller", "by-npx"], folder, { PATH: join(folder, "nothing") });
    const steps = [...text.matchAll(/^ {2}(\S.*)$/gmu)].map(([, step = ""]) => step);
    const npx = `npx -y bun@${Bun.version}`;
    expect(steps).toEqual([
      "cd by-npx",
      `${npx} install`,
      `${npx} check && ${npx} test`,
      `${npx} x --no-install cloud-controller-host sandbox -- --plugin-dir=..`,
    ]);
  });

  test("writes plugins that type-check in a clone as well, whose sources are then checked by their settings", async () => {
    const home = join(folder, "beside-a-clone");
    const root = join(import.meta.dir, "../../..");
    await mkdir(join(home, "node_modules/@types"), { recursive: true });
    await symlink(root, join(home, "node_modules/cloud-controller-host"));
    await symlink(join(root, "node_modules/@types/bun"), join(home, "node_modules/@types/bun"));
    for (const kind of ["controller", "cloud", "webhook"]) {
      await createPlugin([kind, `my-${kind}`], home, environment);
      const check = Bun.spawn([process.execPath, "check", "--no-script"], {
        cwd: join(home, `my-${kind}`),
        stderr: "pipe",
      });
      expect([await new Response(check.stdout).text(), await check.exited]).toEqual(["", 0]);
    }
  }, 60_000);

  test("does not write into a folder with content", async () => {
    // Nothing is installed above the folder, so the next steps begin with that.
    expect(await createPlugin(["controller", "twice"], folder, environment)).toContain("  cd twice\n  bun install\n");
    await expect(createPlugin(["controller", "twice"], folder, environment)).rejects.toThrow("is not empty");
  });
});

test.each([
  ["cloud-conifg", "--cloud-config", " (did you mean --cloud-config?)"],
  ["kloud-config", "--cloud-config", " (did you mean --cloud-config?)"],
  ["zzz", "--cloud-config", ""],
  ["ab", "--cd", ""],
])("a suggestion for %s among %s is %p", (given, candidate, expected) => {
  expect(didYouMean(given, [candidate.slice(2)], "--")).toBe(expected);
});
