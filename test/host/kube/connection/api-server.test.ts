import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { CodedError } from "cloud-controller-host/sdk";

import { loadApiServer } from "../../../../host/kube/connection/api-server.ts";
import { errorOf } from "../../../kit/rejection.ts";
import { pem } from "../stub-api.ts";

const variables = ["KUBECONFIG", "HOME", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"];
let directory = "";
let saved: Record<string, string | undefined> = {};
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kubeconfig-"));
  saved = Object.fromEntries(variables.map((name) => [name, process.env[name]]));
  for (const name of variables) delete process.env[name];
  process.env["HOME"] = directory;
});
afterEach(async () => {
  for (const [name, value] of Object.entries(saved)) {
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  }
  await rm(directory, { recursive: true });
});

const cluster = (fields = ""): string => `{name: k, cluster: {server: "https://10.0.0.1:6443/"${fields}}}`;
const config = (parts: { cluster?: string; user?: string; context?: string; current?: string } = {}): string => `
apiVersion: v1
kind: Config
current-context: ${parts.current ?? "c"}
clusters: [${parts.cluster ?? cluster()}]
users: [{name: u, user: {${parts.user ?? "token: abc"}}}]
contexts: [{name: c, context: {${parts.context ?? "cluster: k, user: u"}}}]
`;

async function write(text: string, name = "config"): Promise<string> {
  const path = join(directory, name);
  await writeFile(path, text);
  return path;
}

/** The one line that loading fails with. */
function problem(options: Parameters<typeof loadApiServer>[0]): string {
  try {
    loadApiServer(options);
  } catch (error) {
    expect(error).toBeInstanceOf(CodedError);
    const message = error instanceof Error ? error.message : "";
    expect(message).not.toContain("\n");
    return message;
  }
  return "no problem";
}

describe("the API server", () => {
  test("is that of --kubeconfig's current context, with its credentials", async () => {
    const kubeconfig = await write(
      config({ cluster: cluster(`, certificate-authority-data: ${btoa(pem.ca)}, tls-server-name: k8s`) }),
    );
    const api = loadApiServer({ kubeconfig });
    expect(api.url).toBe("https://10.0.0.1:6443");
    expect(await api.credentials()).toEqual({
      tls: { ca: pem.ca, serverName: "k8s" },
      headers: { Authorization: "Bearer abc" },
    });
  });

  test("is that of --master if both are set, with the kubeconfig's credentials", async () => {
    const kubeconfig = await write(config());
    const api = loadApiServer({ kubeconfig, master: "https://other:1/prefix/" });
    expect(api.url).toBe("https://other:1/prefix");
    expect((await api.credentials()).headers).toEqual({ Authorization: "Bearer abc" });
  });

  test("is reached over https where its address has no scheme and the kubeconfig has any TLS setting, otherwise over http", async () => {
    const urlOf = async (fields: string): Promise<string> => {
      const kubeconfig = await write(config({ cluster: `{name: k, cluster: {server: "10.0.0.1:6443"${fields}}}` }));
      return loadApiServer({ kubeconfig }).url;
    };
    expect(await urlOf("")).toBe("http://10.0.0.1:6443");
    expect(await urlOf(`, certificate-authority-data: ${btoa(pem.ca)}`)).toBe("https://10.0.0.1:6443");
    expect(await urlOf(", insecure-skip-tls-verify: true")).toBe("https://10.0.0.1:6443");
  });

  test("is that of --master alone without credentials, over http if it has no scheme", async () => {
    const api = loadApiServer({ master: "127.0.0.1:8080" });
    expect(api.url).toBe("http://127.0.0.1:8080");
    expect((await api.credentials()).headers).toEqual({});
  });

  test("is found in $KUBECONFIG, where the first of several files applies, and otherwise in the home directory", async () => {
    const first = await write(config({ user: "token: first" }), "first");
    const second = await write(
      config({ user: "token: second", cluster: cluster().replace("10.0.0.1", "10.9.9.9") }),
      "second",
    );
    process.env["KUBECONFIG"] = `${join(directory, "absent")}:${first}:${second}`;
    const api = loadApiServer({});
    expect(api.url).toBe("https://10.0.0.1:6443");
    expect((await api.credentials()).headers).toEqual({ Authorization: "Bearer first" });
    delete process.env["KUBECONFIG"];
    await Bun.write(join(directory, ".kube", "config"), config({ user: "token: home" }));
    expect((await loadApiServer({ kubeconfig: "", master: "" }).credentials()).headers).toEqual({
      Authorization: "Bearer home",
    });
  });

  test("is the pod's, with its service account, where both variables and the token are there, and a kubeconfig's otherwise", async () => {
    process.env["KUBECONFIG"] = await write(config());
    const pod = join(directory, "pod");
    const found = (): string => loadApiServer({ podFiles: pod }).url;
    await mkdir(pod);
    process.env["KUBERNETES_SERVICE_HOST"] = "fd00::1";
    process.env["KUBERNETES_SERVICE_PORT"] = "443";
    expect(found()).toBe("https://10.0.0.1:6443");
    await Promise.all([writeFile(join(pod, "token"), "of-the-pod"), writeFile(join(pod, "ca.crt"), pem.ca)]);
    const api = loadApiServer({ podFiles: pod });
    const { headers, tls } = await api.credentials();
    expect([api.url, headers, tls?.ca]).toEqual([
      "https://[fd00::1]:443",
      { Authorization: "Bearer of-the-pod" },
      pem.ca,
    ]);
    for (const name of ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"]) {
      const value = process.env[name];
      delete process.env[name];
      expect(found()).toBe("https://10.0.0.1:6443");
      process.env[name] = value;
    }
  });

  test("reads a user's tokenFile, relative to the kubeconfig", async () => {
    await write("from-file\n", "token");
    const kubeconfig = await write(config({ user: "tokenFile: token" }));
    expect((await loadApiServer({ kubeconfig }).credentials()).headers).toEqual({ Authorization: "Bearer from-file" });
  });

  test("runs a credential plugin whose command has a slash from the kubeconfig's folder, wherever the host was started", async () => {
    const credential = { apiVersion: "client.authentication.k8s.io/v1", kind: "ExecCredential" };
    const output = JSON.stringify({ ...credential, status: { token: "of-the-plugin" } });
    await mkdir(join(directory, "bin"));
    await writeFile(join(directory, "bin", "plugin"), `#!/bin/sh\necho '${output}'\n`, { mode: 0o755 });
    const exec = (command: string): string => `exec: {apiVersion: ${credential.apiVersion}, command: ${command}}`;
    const kubeconfig = await write(config({ user: exec("./bin/plugin") }));
    expect((await loadApiServer({ kubeconfig }).credentials()).headers).toEqual({
      Authorization: "Bearer of-the-plugin",
    });
    await write(config({ user: exec("no-such-plugin") }));
    expect(await errorOf(loadApiServer({ kubeconfig }).credentials())).toMatchObject({
      message: expect.stringContaining("cannot be started (no-such-plugin)"),
    });
  });

  test("is found in a kubeconfig with incomplete entries that its context does not use, as kubectl leaves them", async () => {
    const unused = "{name: old, cluster: {}}, {name: older, cluster: {server: ''}}, {cluster: {server: 'https://x'}}";
    const text = config({ cluster: `${unused}, ${cluster()}` })
      .replace("users: [", "users: [{user: {}}, ")
      .replace("contexts: [", "contexts: [{name: new, context: {namespace: x}}, {name: newer}, ");
    const kubeconfig = await write(text);
    expect(loadApiServer({ kubeconfig }).url).toBe("https://10.0.0.1:6443");
    await write(text.replace("current-context: c", "current-context: new"));
    expect(problem({ kubeconfig })).toEndWith('current-context is "new", but that context names no cluster');
    await write(text.replace("cluster: k, user: u", "cluster: older, user: u"));
    expect(problem({ kubeconfig })).toEndWith('context "c" names the cluster "older", which has no server');
  });

  test("does not take the token file of another user in the kubeconfig", async () => {
    await write("theirs", "token");
    const users = "users: [{name: other, user: {tokenFile: token}}, {name: u, user: {token: abc}}]";
    const kubeconfig = await write(config().replace(/^users: .*$/mu, users));
    expect((await loadApiServer({ kubeconfig }).credentials()).headers).toEqual({ Authorization: "Bearer abc" });
  });

  test("may be reached over plain http and without verification", async () => {
    const kubeconfig = await write(config({ cluster: cluster(", insecure-skip-tls-verify: true") }));
    expect((await loadApiServer({ kubeconfig }).credentials()).tls).toEqual({ rejectUnauthorized: false });
    expect((await loadApiServer({ kubeconfig, master: "http://h:1" }).credentials()).headers).toEqual({
      Authorization: "Bearer abc",
    });
  });
});

test("credentials from files and from a kubeconfig load none of client-node's generated classes", async () => {
  await write("from-file", "token");
  const kubeconfig = await write(config({ user: "tokenFile: token" }));
  const source = join(import.meta.dir, "../../../../host/kube/connection/api-server.ts");
  const script = `
    const { loadApiServer } = await import(${JSON.stringify(source)});
    const { headers } = await loadApiServer({ kubeconfig: ${JSON.stringify(kubeconfig)} }).credentials();
    const generated = Object.keys(require.cache).filter((path) => path.includes("client-node/dist/gen/"));
    console.log(JSON.stringify({ headers, generated: generated.length }));`;
  const child = Bun.spawn([process.execPath, "--no-install", "-e", script], {
    cwd: import.meta.dir,
    stderr: "inherit",
  });
  expect(JSON.parse(await child.stdout.text())).toEqual({
    headers: { Authorization: "Bearer from-file" },
    generated: 0,
  });
}, 120_000);

describe("an invalid configuration is reported in one line", () => {
  test("an invalid configuration is reported in one line when the configuration is missing", () => {
    expect(problem({})).toMatch(/^no API server is configured: set --kubeconfig=<file> or --master=<url>/);
  });

  test("an invalid configuration is reported in one line when the file is missing, empty or not a kubeconfig", async () => {
    expect(problem({ kubeconfig: "/none" })).toBe(
      "--kubeconfig=/none: cannot read /none (ENOENT); give the path of a readable kubeconfig file",
    );
    const kubeconfig = await write("");
    for (const text of ["", "current-context", "- name: c"]) {
      await write(text);
      expect(problem({ kubeconfig })).toBe(
        `--kubeconfig=${kubeconfig}: ${kubeconfig} is not a kubeconfig file: it is not a YAML mapping`,
      );
    }
    await write("users:\n- name: u\n  user: {token: top-secret\n  bad");
    expect(problem({ kubeconfig })).toStartWith(`--kubeconfig=${kubeconfig}: ${kubeconfig} is not a kubeconfig file`);
    expect(problem({ kubeconfig })).not.toContain("top-secret");
    expect(problem({ kubeconfig })).not.toEndWith(":");
    const flag = "--authentication-kubeconfig";
    expect(problem({ kubeconfig: "/none", flag })).toStartWith(`${flag}=/none: cannot read /none`);
  });

  test("an invalid configuration is reported in one line when a file defines a name twice", async () => {
    const kubeconfig = await write(config({ cluster: `${cluster()}, ${cluster()}` }));
    expect(problem({ kubeconfig })).toEndWith(`is not a kubeconfig file: duplicate name "k" in list`);
  });

  test("an invalid configuration is reported in one line when a name refers to a missing entry", async () => {
    const kubeconfig = await write(config({ current: '""' }));
    const flag = `--kubeconfig=${kubeconfig}: `;
    expect(problem({ kubeconfig })).toBe(
      `${flag}current-context is not set; set it with "kubectl config use-context <name>"`,
    );
    await write(config({ current: "x" }));
    expect(problem({ kubeconfig })).toBe(`${flag}current-context is "x", but that context does not exist`);
    await write(config({ context: "cluster: y, user: u" }));
    expect(problem({ kubeconfig })).toBe(`${flag}context "c" names the cluster "y", which is not defined there`);
    await write(config({ context: "cluster: k, user: y" }));
    expect(problem({ kubeconfig })).toBe(`${flag}context "c" names the user "y", which is not defined there`);
  });

  test("an invalid configuration is reported in one line when a referenced file cannot be read", async () => {
    const kubeconfig = await write(config({ user: "client-certificate: none.crt, client-key: none.key" }));
    expect(problem({ kubeconfig })).toBe(
      `--kubeconfig=${kubeconfig}: cannot read ${directory}/none.crt (ENOENT), which its field client-certificate names`,
    );
    await write(config({ user: "tokenFile: none" }));
    expect(problem({ kubeconfig })).toContain("which its field tokenFile names");
  });

  test("an invalid configuration is reported in one line when a client certificate has no key: requests would be anonymous", async () => {
    const kubeconfig = await write(config({ user: `client-certificate-data: ${btoa(pem.cert)}` }));
    expect(problem({ kubeconfig })).toEndWith('its user "u" has a client certificate without its key');
    await write(config({ user: `client-certificate-data: ${btoa(pem.cert)}, client-key-data: ${btoa(pem.key)}` }));
    expect(problem({ kubeconfig })).toBe("no problem");
  });

  test("an invalid configuration is reported in one line when its user impersonates more than a name", async () => {
    const kubeconfig = await write(config({ user: "token: abc, as: jane, as-groups: [], as-uid: ''" }));
    expect((await loadApiServer({ kubeconfig }).credentials()).headers).toEqual({
      Authorization: "Bearer abc",
      "Impersonate-User": "jane",
    });
    await write(config({ user: "token: abc, as: jane, as-groups: [a, b], as-uid: '1', as-user-extra: {scopes: [x]}" }));
    expect(problem({ kubeconfig })).toBe(
      `--kubeconfig=${kubeconfig}: its user "u" has as-uid, as-groups, as-user-extra; only "as" can be impersonated, so use a user that has the permissions itself`,
    );
  });

  test("an invalid configuration is reported in one line when the address is invalid or the proxy scheme is unsupported", async () => {
    expect(problem({ master: "ftp://x" })).toBe(
      "--master=ftp://x is not the URL of an API server; write it like https://10.0.0.1:6443",
    );
    expect(problem({ master: "https://[" })).toStartWith("--master=https://[ is not the URL of an API server; ");
    const kubeconfig = await write(config({ cluster: cluster(', proxy-url: "socks5://p:1"') }));
    expect(problem({ kubeconfig })).toBe(
      `--kubeconfig=${kubeconfig}: its proxy-url begins with "socks5:"; only http and https proxies can be used`,
    );
  });
});
