import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { SandboxApiServer } from "../../sdk/testing/api-server/index.ts";
import { freePort } from "../envtest/free-port.ts";
import { simulateAzure } from "../kit/azure.ts";
import { HostProcess } from "../kit/host-process.ts";

setDefaultTimeout(120_000);

interface Lab extends AsyncDisposable {
  readonly folder: string;
  readonly url: string;
  readonly kubeconfig: string;
  readonly kubeconfigText: string;
  file(name: string, text: string): Promise<string>;
}

async function lab(): Promise<Lab> {
  await using opening = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "bad-input-"));
  opening.defer(() => rm(folder, { recursive: true, force: true }));
  const api = opening.use(await SandboxApiServer.start());
  const file = async (name: string, text: string): Promise<string> => {
    const path = join(folder, name);
    await mkdir(join(path, ".."), { recursive: true });
    await writeFile(path, text);
    return path;
  };
  const kubeconfigText = api.kubeconfig();
  const kubeconfig = await file("kubeconfig", kubeconfigText);
  const stack = opening.move();
  return { folder, url: api.url, kubeconfig, kubeconfigText, file, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

/** Runs a host that is expected to refuse its input; resolves with its complaint. */
async function refusal(flags: readonly string[]): Promise<{ readonly status: number; readonly text: string }> {
  await using host = new HostProcess({ flags });
  const status = await host.ended();
  return { status, text: host.stderr };
}

const goodConfig =
  "cloud: AzurePublicCloud\ntenantId: t\nsubscriptionId: s\nresourceGroup: g\nlocation: l\naadClientId: i\naadClientSecret: hush-hush\n";

/** A line that names the thing, exit status 1, and never a stack trace. */
function expectPlain({ status, text }: { readonly status: number; readonly text: string }, ...parts: string[]): void {
  for (const part of parts) expect(text).toContain(part);
  expect(text).not.toMatch(/^\s+at .+:\d+:\d+/m);
  expect(status).toBe(1);
}

describe("the command line refuses, with status 1 and one clear line", () => {
  test("the command line refuses, with status 1 and one clear line, every wrong flag at once", async () => {
    const refused = await refusal([
      "--no-such-flag",
      "--kube-api-qps=fast",
      "--leader-elect-lease-duration=15",
      "stray",
    ]);
    expectPlain(
      refused,
      "unknown flag: --no-such-flag",
      'invalid argument "fast" for "--kube-api-qps" flag',
      'invalid argument "15" for "--leader-elect-lease-duration" flag',
      '"stray"',
    );
  });

  test("the command line refuses, with status 1 and one clear line, contradictory values and unknown names", async () => {
    const refused = await refusal([
      "--cloud-config=x",
      "--cloud-provider=aws",
      "--controllers=*,-nodes",
      "--leader-elect-renew-deadline=20s",
    ]);
    expectPlain(refused, "aws", "azure", "nodes", "--leader-elect-renew-deadline");
  });

  test("the command line refuses, with status 1 and one clear line, a kubeconfig that does not exist", async () => {
    await using at = await lab();
    const config = await at.file("cloud.yaml", goodConfig);
    const refused = await refusal([
      `--cloud-config=${config}`,
      `--kubeconfig=${at.folder}/nowhere`,
      "--configure-cloud-routes=false",
    ]);
    expectPlain(refused, "--kubeconfig", `${at.folder}/nowhere`);
  });
});

describe("the host refuses at startup, with status 1 and one clear line", () => {
  const cases: readonly (readonly [string, string | undefined, string])[] = [
    ["a missing cloud config", undefined, "no such file"],
    ["an empty cloud config", "", "it is empty"],
    ["YAML that is not a mapping", "- a\n- b\n", "it must be a mapping of keys to values"],
    ["half-written YAML", 'tenantId: "abc', "neither YAML nor JSON: line 1"],
    ["YAML of one line that ends too early", 'tenantId: "abc\n', "neither YAML nor JSON: line 1"],
    ["values that cannot be", `${goodConfig}vmType: submarine\nputVMSSVMBatchSize: many\n`, "putVMSSVMBatchSize"],
  ];
  test.each(cases)("%s", async (_, text, problem) => {
    await using at = await lab();
    const config = text === undefined ? join(at.folder, "none.yaml") : await at.file("cloud.yaml", text);
    const refused = await refusal([
      `--kubeconfig=${at.kubeconfig}`,
      `--cloud-config=${config}`,
      "--configure-cloud-routes=false",
    ]);
    expectPlain(refused, problem, config);
    expect(refused.text).not.toContain("hush-hush");
  });

  const plugin = (body: string): string => `
    import { defineController } from "cloud-controller-host/sdk";
    export default defineController({ name: "odd-controller", construct: () => ${body} });`;
  /** It limits the imports of the host's own plugins too, so it must be long enough for these on a slow machine. */
  const shortInitSeconds = 5;
  const plugins: readonly (readonly [name: string, source: string, problem: string, flags?: readonly string[]])[] = [
    ["a plugin that throws on import", 'throw new Error("boom");', "cannot be imported: boom"],
    ["a plugin without a default export", "export const x = 1;", "has no default export"],
    [
      "a plugin that reuses a name",
      plugin("() => ({})").replace("odd-controller", "cloud-node-controller"),
      "is taken by plugin",
    ],
    [
      "a plugin whose init throws",
      plugin('() => { throw new Error("no luck"); }'),
      'odd-controller\\" cannot be initialized: no luck',
    ],
    [
      "a plugin whose init never returns",
      plugin("() => new Promise(() => {})"),
      `init of odd-controller did not return within ${shortInitSeconds} s (--plugin-init-timeout`,
      [`--plugin-init-timeout=${shortInitSeconds}s`],
    ],
    [
      "a plugin whose init returns no controller",
      plugin("() => ({ start() {} })"),
      'odd-controller\\": init must return',
    ],
    ["a plugin whose init returns nothing", plugin("() => undefined"), 'odd-controller\\": init must return'],
  ];
  test.each(plugins)("%s, under --plugin-failure-policy=exit", async (_, source, problem, flags = []) => {
    await using at = await lab();
    await using azure = await simulateAzure();
    await at.file("plugins/odd/plugin.ts", source);
    const refused = await refusal([
      `--kubeconfig=${at.kubeconfig}`,
      `--cloud-config=${azure.config}`,
      "--configure-cloud-routes=false",
      "--controllers=odd-controller,cloud-node-controller",
      `--plugin-dir=${at.folder}/plugins`,
      "--plugin-failure-policy=exit",
      ...flags,
    ]);
    expectPlain(refused, problem);
  });
});

describe("an unknown key of the cloud config", () => {
  test("causes a warning that names it, and the host continues", async () => {
    await using at = await lab();
    await using azure = await simulateAzure();
    await writeFile(azure.config, `${azure.configText}resourceGruop: g2\n`);
    await using host = new HostProcess({
      flags: [`--kubeconfig=${at.kubeconfig}`, `--cloud-config=${azure.config}`, "--controllers=cloud-node-controller"],
    });
    await host.until("it runs", ({ running }) => running);
    expect(host.lines("resourceGruop").join("\n")).toContain(azure.config);
  });
});

describe("an API server that is not reachable yet", () => {
  test("is named in one line and waited for, while /healthz is served", async () => {
    await using at = await lab();
    await using azure = await simulateAzure();
    await using gate = closedGate(Number(new URL(at.url).port));
    const kubeconfig = await at.file("gate.kubeconfig", at.kubeconfigText.replaceAll(at.url, gate.url));
    await using host = new HostProcess({
      flags: [
        `--kubeconfig=${kubeconfig}`,
        `--cloud-config=${azure.config}`,
        "--controllers=cloud-node-controller",
        "--leader-elect-retry-period=300ms",
      ],
    });
    await host.eventually("the log names the server that does not answer", () => host.lines(gate.url).length > 0);
    await host.eventually("it is alive", async () => (await host.get("/healthz")).status === 200);
    // Each component tries again several times, and logs the same problem once.
    await Bun.sleep(3_000);
    const complaints = [...host.stderr.matchAll(/^[WE]\d{4} .*?\] "([^"]+)"/gm)].map(([, message]) => message);
    expect(complaints.length).toBeGreaterThan(1);
    expect(complaints).toEqual([...new Set(complaints)]);
    gate.open();
    await host.until("it leads and runs once the server is there", ({ leading, running }) => leading && running);
    expect(await host.stop()).toBe(0);
  });
});

/** A loopback port that refuses connections until it is opened, and then leads to another port. */
function closedGate(target: number): AsyncDisposable & { readonly url: string; open(): void } {
  const port = freePort();
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connect(target, "127.0.0.1");
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", () => socket.destroy());
      socket.on("close", () => sockets.delete(socket));
    }
    client.pipe(upstream).pipe(client);
  });
  return {
    url: `https://127.0.0.1:${port}`,
    open: () => void server.listen(port, "127.0.0.1"),
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise<void>((resolve) => void server.close(() => resolve()));
    },
  };
}
