import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { chmod, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { isObject } from "cloud-controller-host/sdk";
import { parse } from "yaml";

import { type JsonObject, objectsAt, parseJson } from "../../../../plugins/azure-cloud/json.ts";

const program = join(import.meta.dir, "..", "..", "..", "..", "plugins", "azure-cloud", "simulator", "main.ts");

interface Program {
  readonly directory: string;
  readonly stdout: string;
  readonly control: string;
  readonly origin: string;
  /** Asks the process to stop; resolves with its exit status. */
  stop(): Promise<number>;
}

const spawn = (flags: readonly string[]) =>
  Bun.spawn([process.execPath, program, ...flags], { stdin: "ignore", stdout: "pipe", stderr: "pipe" });

async function started(directory: string, flags: readonly string[]): Promise<Program> {
  const child = spawn([`--directory=${directory}`, ...flags]);
  let stdout = "";
  const decoder = new TextDecoder();
  for await (const chunk of child.stdout) {
    stdout += decoder.decode(chunk, { stream: true });
    if (stdout.endsWith("ready\n")) break;
  }
  const control = /control: (\S+)/u.exec(stdout)?.[1];
  const origin = /(https:\/\/127\.0\.0\.1:\d+)/u.exec(stdout)?.[1];
  if (control === undefined || origin === undefined) throw new Error(await new Response(child.stderr).text());
  return {
    directory,
    stdout,
    control,
    origin,
    stop() {
      child.kill("SIGTERM");
      return child.exited;
    },
  };
}

async function json(
  url: string,
  method = "GET",
  body?: unknown,
): Promise<{ readonly status: number; readonly body: JsonObject }> {
  const response = await fetch(url, { method, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
  const parsed = parseJson(await response.text());
  return { status: response.status, body: isObject(parsed) ? parsed : {} };
}

/** A program without any library of Azure: logs in with what the config holds, and sends a request to ARM. */
async function arm(directory: string, path: string, method = "GET", query = ""): Promise<Response> {
  const config: unknown = parse(await Bun.file(join(directory, "cloud-config.yaml")).text());
  if (!isObject(config)) throw new Error("the cloud config is not a mapping");
  const tls = { ca: await Bun.file(String(config["resourceManagerCAFile"])).text() };
  const origin = String(config["resourceManagerEndpoint"]);
  const form = new URLSearchParams({
    grant_type: "client_credentials",
    client_id: String(config["aadClientId"]),
    client_secret: String(config["aadClientSecret"]),
  });
  const login = parseJson(
    await (await fetch(`${origin}/adfs/oauth2/token`, { method: "POST", body: form, tls })).text(),
  );
  const token = isObject(login) ? String(login["access_token"]) : "";
  return fetch(`${origin}${path}?api-version=2025-05-01${query}`, {
    method,
    headers: { authorization: `Bearer ${token}` },
    tls,
  });
}

const compute = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Compute";

describe("the simulator as a program", () => {
  let parent = "";
  let running: Program | undefined;
  const simulator = (): Program => {
    if (running === undefined) throw new Error("the program has not started");
    return running;
  };
  beforeAll(async () => {
    parent = await mkdtemp(join(tmpdir(), "simulator-program-"));
    running = await started(join(parent, "sim"), ["--nodes=2", "--latency=1ms"]);
  });
  afterAll(async () => {
    await running?.stop();
    await rm(parent, { recursive: true, force: true });
  });

  test("prints its address and its nodes, and writes a config that others can use", async () => {
    const { stdout, directory } = simulator();
    expect(stdout).toContain("node vmss0000000 10.240.0.4\nnode vmss0000001 10.240.0.5\n");
    expect((await arm(directory, `${compute}/virtualMachineScaleSets/vmss0`)).status).toBe(200);
    expect(await readdir(directory)).toEqual(expect.arrayContaining(["arm-ca.pem", "cloud-config.yaml"]));
  });

  test("fails the requests that a script configures", async () => {
    const { control, directory } = simulator();
    const fault = { method: "GET", path: "/virtualMachineScaleSets", status: 429, headers: { "retry-after": "7" } };
    expect((await json(`${control}/__faults`, "POST", fault)).body).toEqual({ pending: 1 });
    const failed = await arm(directory, `${compute}/virtualMachineScaleSets`);
    expect([failed.status, failed.headers.get("retry-after")]).toEqual([429, "7"]);
    expect((await arm(directory, `${compute}/virtualMachineScaleSets`)).status).toBe(200);
    await json(`${control}/__faults`, "POST", { status: 500, times: 9 });
    expect((await json(`${control}/__faults`, "DELETE")).body).toEqual({ pending: 0 });
    expect((await arm(directory, `${compute}/virtualMachineScaleSets`)).status).toBe(200);
  });

  test("returns its requests and its resources", async () => {
    const { control, directory } = simulator();
    await json(`${control}/__requests`, "DELETE");
    await arm(directory, `${compute}/virtualMachineScaleSets/vmss0`);
    const { body } = await json(`${control}/__requests`);
    expect(objectsAt(body, "requests").at(-1)).toMatchObject({
      method: "GET",
      path: `${compute}/virtualMachineScaleSets/vmss0`,
      status: 200,
    });
    const names = objectsAt((await json(`${control}/__resources`)).body, "resources").map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(["vnet0", "nsg0", "rt0", "vmss0"]));
  });

  test("adds, powers off, deallocates, starts and removes instances", async () => {
    const { control, directory } = simulator();
    const post = (body: unknown) => json(`${control}/__instances`, "POST", body);
    const powerOf = async (): Promise<string> => {
      const path = `${compute}/virtualMachineScaleSets/vmss0/virtualMachines/2`;
      return (await arm(directory, path, "GET", "&$expand=instanceView")).text();
    };
    expect((await post({ action: "add", count: 1 })).body).toEqual({
      instances: [{ nodeName: "vmss0000002", internalIP: "10.240.0.6" }],
    });
    for (const [action, powerState] of [
      ["powerOff", "stopped"],
      ["deallocate", "deallocated"],
      ["start", "running"],
    ]) {
      expect((await post({ action, nodeName: "vmss0000002" })).status).toBe(200);
      expect(await powerOf()).toContain(`"PowerState/${powerState}"`);
    }
    expect((await post({ action: "remove", nodeName: "vmss0000002" })).status).toBe(200);
    expect((await arm(directory, `${compute}/virtualMachineScaleSets/vmss0/virtualMachines/2`)).status).toBe(404);
  });

  const refusals: readonly (readonly [string, string, unknown, number])[] = [
    ["a fault without a status", "/__faults", { method: "GET" }, 400],
    ["a fault at an unknown stage", "/__faults", { status: 500, stage: "later" }, 400],
    ["a body that is not JSON", "/__instances", undefined, 400],
    ["an unknown action", "/__instances", { action: "explode" }, 400],
    ["too many instances", "/__instances", { action: "add", count: 1e9 }, 400],
    ["an instance that does not exist", "/__instances", { action: "remove", nodeName: "nobody" }, 404],
    ["a method that is not offered", "/__resources", {}, 405],
    ["an unknown path", "/__secrets", {}, 404],
  ];
  for (const [what, path, body, status] of refusals)
    test(`refuses ${what}`, async () => {
      expect((await json(`${simulator().control}${path}`, "POST", body)).status).toBe(status);
    });

  test("refuses what a web page sends", async () => {
    const { control } = simulator();
    const foreign = { headers: { origin: "https://example.com" } };
    expect((await fetch(`${control}/__requests`, foreign)).status).toBe(403);
    expect((await fetch(`${control}/__requests`, { headers: { host: "example.com" } })).status).toBe(403);
  });

  test("answers a method that ARM lacks with 405", async () => {
    const { directory } = simulator();
    expect((await arm(directory, `${compute}/virtualMachineScaleSets/vmss0`, "POST")).status).toBe(405);
    expect((await arm(directory, `${compute}/virtualMachineScaleSets`, "PUT")).status).toBe(405);
    expect((await arm(directory, `${compute}/virtualMachineScaleSets/vmss0/networkInterfaces`, "DELETE")).status).toBe(
      405,
    );
  });
});

describe("the simulator's folder", () => {
  test("is left as it was found, but for what a user has changed", async () => {
    const parent = await mkdtemp(join(tmpdir(), "simulator-folder-"));
    try {
      await writeFile(join(parent, "notes"), "mine");
      const first = await started(parent, []);
      expect(await first.stop()).toBe(0);
      expect(await readdir(parent)).toEqual(["notes"]);
      const second = await started(parent, []);
      await chmod(join(parent, "cloud-config.yaml"), 0o600);
      await writeFile(join(parent, "cloud-config.yaml"), "edited: true\n");
      expect(await second.stop()).toBe(0);
      expect((await readdir(parent)).toSorted()).toEqual(["cloud-config.yaml", "notes"]);
      const third = spawn([`--directory=${parent}`]);
      expect(await third.exited).toBe(1);
      expect(await new Response(third.stderr).text()).toContain("cloud-config.yaml already exists");
      expect(await Bun.file(join(parent, "cloud-config.yaml")).text()).toBe("edited: true\n");
    } finally {
      await rm(parent, { recursive: true, force: true });
    }
  });

  const wrong: readonly (readonly [readonly string[], string])[] = [
    [[], "--directory must name a folder"],
    [["--directory=x", "--nodes=many", "--latency=soon"], "--nodes=many must be a number up to 50000; --latency=soon"],
  ];
  for (const [flags, text] of wrong)
    test(`is not touched where the flags are wrong: ${flags.join(" ") || "none"}`, async () => {
      const child = spawn(flags);
      expect(await child.exited).toBe(1);
      expect(await new Response(child.stderr).text()).toContain(text);
    });
});
