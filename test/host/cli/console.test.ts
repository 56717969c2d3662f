import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { writeFile } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { join } from "node:path";

import { eventually } from "cloud-controller-host/sdk/testing";

import type { Surroundings } from "../../../host/cli/command.ts";
import { checkConsole, runConsole } from "../../../host/cli/console.ts";
import { announcementBy, announcementKey } from "../../../host/process/leader-election/announcement.ts";
import { openSandbox, type Sandbox } from "../../../host/sandbox-host.ts";

setDefaultTimeout(120_000);

/**
 * An API server whose Pods can be reached: it forwards ports as the kubelet does, in pieces of any size, and passes
 * everything else on to the sandbox's.
 */
function serveWithPods(sandbox: Sandbox, portOf: (pod: string) => number) {
  interface Tunnel {
    readonly pod: string;
    readonly ports: number;
    socket?: Socket;
  }
  const forwarded: string[] = [];
  const server = Bun.serve<Tunnel>({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request, own) {
      const url = new URL(request.url);
      const [, pod] = /\/pods\/([^/]+)\/portforward$/u.exec(url.pathname) ?? [];
      if (pod === undefined)
        return fetch(`${sandbox.api.url}${url.pathname}${url.search}`, {
          headers: request.headers,
          tls: { rejectUnauthorized: false },
        });
      if (request.headers.get("authorization") !== `Bearer ${sandbox.api.tokens.of("admin")}`)
        return new Response("forbidden", { status: 403 });
      forwarded.push(pod);
      const isUpgraded = own.upgrade(request, {
        data: { pod, ports: Number(url.searchParams.get("ports")) },
        headers: { "Sec-WebSocket-Protocol": "v4.channel.k8s.io" },
      });
      return isUpgraded ? undefined : new Response("upgrade", { status: 400 });
    },
    websocket: {
      open(client) {
        const { pod, ports } = client.data;
        const prefix = [ports & 255, ports >> 8];
        for (const channel of [0, 1]) client.send(Buffer.from([channel, ...prefix]));
        const socket = connect(portOf(pod), "127.0.0.1");
        client.data.socket = socket;
        socket.on("data", (chunk: Buffer) => {
          for (let at = 0; at < chunk.length; at += 1_000)
            client.send(Buffer.concat([Buffer.of(0), chunk.subarray(at, at + 1_000)]));
        });
        socket.on("close", () => client.close());
        socket.on("error", () => client.close());
      },
      message({ data }, message) {
        const bytes: Uint8Array = typeof message === "string" ? Buffer.from(message) : message;
        data.socket?.write(bytes.subarray(1));
      },
      close: ({ data }) => void data.socket?.destroy(),
    },
  });
  return { url: `http://127.0.0.1:${server.port}`, forwarded, stop: () => server.stop(true) };
}

let sandbox: Sandbox;
let cluster: ReturnType<typeof serveWithPods>;
let kubeconfig = "";

beforeAll(async () => {
  sandbox = await openSandbox();
  await eventually("it leads", () => sandbox.host.status.leading, 20_000);
  cluster = serveWithPods(sandbox, () => Number(new URL(sandbox.host.url ?? "").port));
  kubeconfig = join(sandbox.directory, "console.kubeconfig");
  await writeFile(kubeconfig, kubeconfigOf(sandbox.api.tokens.of("admin")));
  await createPod(holder(), { "app.kubernetes.io/name": "cloud-controller-host" });
});

const holder = (): string => sandbox.host.status.identity.replace(/_[^_]*$/u, "");

afterAll(async () => {
  await cluster.stop();
  await sandbox[Symbol.asyncDispose]();
});

const kubeconfigOf = (token: string): string =>
  JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    "current-context": "c",
    contexts: [{ name: "c", context: { cluster: "c", user: "u" } }],
    clusters: [{ name: "c", cluster: { server: cluster.url } }],
    users: [{ name: "u", user: { token } }],
  });

const createPod = (name: string, labels: Readonly<Record<string, string>>): Promise<void> =>
  create("/api/v1/namespaces/kube-system/pods", {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, labels },
    spec: { containers: [{ name: "host", image: "host" }] },
  });

async function create(path: string, object: object): Promise<void> {
  const reply = await fetch(`${sandbox.api.url}${path}`, {
    method: "POST",
    headers: { Authorization: `Bearer ${sandbox.api.tokens.of("admin")}`, "Content-Type": "application/json" },
    body: JSON.stringify(object),
    tls: { rejectUnauthorized: false },
  });
  if (!reply.ok) throw new Error(await reply.text());
}

/** Runs the command until `visit` is done with its page. */
async function run(argv: readonly string[], visit?: (url: string) => Promise<void>) {
  const stop = new AbortController();
  let [stdout, stderr] = ["", ""];
  const surroundings: Surroundings = {
    environment: {},
    stdout: (text) => void (stdout += text),
    stderr: (text) => void (stderr += text),
    width: 100,
  };
  const running = runConsole(
    [`--kubeconfig=${kubeconfig}`, "--port=0", "--no-browser", ...argv],
    surroundings,
    stop.signal,
  );
  const address = (): string | undefined => /http:\S+/u.exec(stdout)?.[0];
  await Promise.race([running, eventually("it serves", () => address() !== undefined, 20_000)]);
  const url = address();
  if (url !== undefined) await visit?.(url);
  stop.abort();
  return { status: await running, stdout, stderr };
}

describe("console", () => {
  test("says which Pod is missing while none is the holder of the Lease", async () => {
    const { status, stderr } = await run(["--selector=app=nothing"]);
    expect(status).toBe(1);
    expect(stderr).toContain(`is called ${holder()} or runs on the node ${holder()}`);
    expect(stderr).toContain("--namespace and --selector");
  });

  test("serves the page of the Pod that holds the Lease, through the API server and with the caller's credentials", async () => {
    const before = cluster.forwarded.length;
    const { status, stdout, stderr } = await run([], async (url) => {
      const overview = JSON.parse(await (await fetch(new URL("/ui/api/overview", url))).text());
      expect(overview.identity).toBe(sandbox.host.status.identity);
      expect((await (await fetch(new URL("/ui/page.js", url))).text()).length).toBeGreaterThan(10_000);
      const stream = await fetch(new URL("/ui/api/stream", url));
      const first = await stream.body?.getReader().read();
      expect(new TextDecoder().decode(first?.value)).toContain("data: ");
    });
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    expect(stdout).toStartWith(`Console of kube-system/${holder()}: http://127.0.0.1:`);
    expect(stdout).not.toContain(sandbox.api.tokens.of("admin"));
    expect(new Set(cluster.forwarded.slice(before))).toEqual(new Set([holder()]));
  });

  test("finds the leader of a shard by its name, also where its Lease is in another namespace", async () => {
    await createPod("ccm-shard-a-1", { "app.kubernetes.io/name": "cloud-controller-host-a" });
    const holderIdentity = "ccm-shard-a-1-a_0001";
    const served = { shard: "a", services: true, loadBalancerClass: "", serviceSelector: "shard=a" };
    await create("/apis/coordination.k8s.io/v1/namespaces/default/leases", {
      apiVersion: "coordination.k8s.io/v1",
      kind: "Lease",
      metadata: {
        name: "cloud-controller-manager-a",
        annotations: { [announcementKey]: announcementBy(holderIdentity, served) },
      },
      spec: { holderIdentity },
    });
    const flags = ["--shard=a", "--leader-elect-resource-namespace=default"];
    const { status, stdout, stderr } = await run(flags, async (url) => {
      expect((await fetch(new URL("/ui/api/overview", url))).status).toBe(200);
    });
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    expect(stdout).toStartWith("Console of kube-system/ccm-shard-a-1: ");
    const others = await run([...flags, "--selector=app.kubernetes.io/name=cloud-controller-host"]);
    expect(others.stderr).toContain("is called ccm-shard-a-1 or runs on the node ccm-shard-a-1");
    const missing = await run(["--leader-elect-resource-namespace=default"]);
    expect(missing.stderr).toContain("cloud-controller-manager");
    expect(missing.status).toBe(1);
  });

  test("ends when its terminal is closed", async () => {
    const { status } = await run([], async (url) => {
      process.emit("SIGHUP", "SIGHUP");
      await eventually("it serves no more", async () => (await fetch(url).catch(() => undefined)) === undefined);
    });
    expect(status).toBe(0);
  });

  test("names the flag of a port that another console has", async () => {
    const { status } = await run([], async (url) => {
      const { port } = new URL(url);
      const second = await run([`--port=${port}`]);
      expect(second).toEqual({
        status: 1,
        stdout: "",
        stderr: `Error: cannot open the console: --port=${port}: choose another, or 0 for any free one: Failed to start server. Is port ${port} in use?\n`,
      });
    });
    expect(status).toBe(0);
  });

  test("says what the credentials lack", async () => {
    const file = join(sandbox.directory, "stranger.kubeconfig");
    await writeFile(file, kubeconfigOf("unknown"));
    const { status, stderr } = await run([`--kubeconfig=${file}`]);
    expect(status).toBe(1);
    expect(stderr).toContain("Unauthorized");
  });

  test.each([
    [401, "does not accept these credentials: does its kubeconfig for authentication work?"],
    [403, "refuses these credentials: they need get on the path /ui/*, see Roles in deploy/OPERATE.md"],
    [404, "has no console: it is an older version, or its feature gate ComponentStatusz is off"],
    [500, "answered 500"],
  ])("names the Pod whose host answers %d, and the reason: %s", async (status, reason) => {
    const paths: string[] = [];
    const checking = checkConsole((path) => {
      paths.push(path);
      return Promise.resolve(new Response("", { status }));
    }, "ccm-1");
    expect(await checking.catch(String)).toEndWith(`Pod ccm-1 ${reason}`);
    expect(paths).toEqual(["/ui/api/overview"]);
  });

  test.each([
    [["--port=x"], "--port=x: must be a port"],
    [["--prot=1"], "unknown option --prot"],
    [["pod"], "unexpected argument pod"],
    [["--leader-elect-resource-name=none"], "none"],
  ])("rejects %s and names the flag or the object", async (argv, message) => {
    const { status, stderr } = await run(argv);
    expect(status).toBe(1);
    expect(stderr).toContain(message);
  });
});
