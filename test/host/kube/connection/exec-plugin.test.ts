import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { type Clock, messageOf } from "cloud-controller-host/sdk";
import { eventually, manualClock } from "cloud-controller-host/sdk/testing";

import { systemClock } from "../../../../host/async/clock.ts";
import { credentialMetrics } from "../../../../host/kube/connection/credential-metrics.ts";
import { type ApiServer, apiServerOf, type Credentials } from "../../../../host/kube/connection/credentials.ts";
import { MetricsRegistry } from "../../../../host/process/metrics/metrics.ts";
import { selfSigned } from "../../../../host/process/serving/self-signed.ts";
import { sampleOf } from "../../../../host/sandbox/testing/exposition.ts";

let directory = "";
let metrics: MetricsRegistry;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "exec-plugin-"));
  metrics = new MetricsRegistry();
});
afterEach(() => rm(directory, { recursive: true }));

const credentials = "../../../../host/kube/connection/credentials.ts";
const cluster = { name: "c", server: "https://127.0.0.1:6443", skipTLSVerify: false, caData: btoa("ca") };

const connect = (exec: object, clock: Clock = systemClock): ApiServer =>
  apiServerOf(cluster, { name: "jane", exec }, { observer: credentialMetrics(metrics.root), clock });

/** A plugin that runs a script of the shell, which may use `$1` as a file of its own. */
const shell = (script: string): object => ({ command: "sh", args: ["-c", script, "plugin", join(directory, "own")] });

const printing = (status: object, more: object = {}): object =>
  shell(`echo '${JSON.stringify({ kind: "ExecCredential", status, ...more })}'`);

const failure = (access: ApiServer): Promise<string> => access.credentials().then(() => "it worked", messageOf);

const calls = async (code: number, call_status: string): Promise<number | undefined> =>
  sampleOf((await metrics.render()).body, "rest_client_exec_plugin_call_total", { code: String(code), call_status });

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

describe("a credential plugin", () => {
  test("returns a token, and receives the API version and that it is not interactive", async () => {
    const script = `printf '%s' "$KUBERNETES_EXEC_INFO $GREETING" > "$1"; echo '{"apiVersion":"client.authentication.k8s.io/v1beta1","status":{"token":"t"}}'`;
    const access = connect({
      ...shell(script),
      apiVersion: "client.authentication.k8s.io/v1beta1",
      env: [{ name: "GREETING", value: "hello" }],
      provideClusterInfo: true,
    });
    expect((await access.credentials()).headers).toEqual({ Authorization: "Bearer t" });
    const [info = "", greeting] = (await Bun.file(join(directory, "own")).text()).split(" ");
    expect(greeting).toBe("hello");
    expect(JSON.parse(info)).toEqual({
      kind: "ExecCredential",
      apiVersion: "client.authentication.k8s.io/v1beta1",
      spec: {
        interactive: false,
        cluster: { server: cluster.server, "certificate-authority-data": cluster.caData },
      },
    });
    expect(await calls(0, "no_error")).toBe(1);
  });

  test("receives the CA of the cluster from its file, as it is when the plugin is run", async () => {
    const [{ certPem: first }, { certPem: second }] = await Promise.all([selfSigned("", 0), selfSigned("", 0)]);
    const caFile = join(directory, "ca.crt");
    const clock = manualClock();
    const exec = { ...shell(`printf '%s' "$KUBERNETES_EXEC_INFO" > "$1"; echo '{"status":{"token":"t"}}'`) };
    const user = { name: "jane", exec: { ...exec, provideClusterInfo: true } };
    const { caData: _, ...others } = cluster;
    const access = apiServerOf({ ...others, caFile }, user, { clock });
    for (const pem of [first, second]) {
      await writeFile(caFile, pem);
      await clock.advance(60_000);
      const rejected = await access.credentials();
      await access.credentials({ rejected });
      expect(JSON.parse(await Bun.file(join(directory, "own")).text())).toMatchObject({
        spec: { cluster: { "certificate-authority-data": btoa(pem) } },
      });
    }
  });

  test("returns a certificate with its key; its expiry and its age at rotation are metrics", async () => {
    const [first, second] = await Promise.all([selfSigned("", Date.now()), selfSigned("", Date.now())]);
    const answer = (pair: typeof first): string =>
      JSON.stringify({ status: { clientCertificateData: pair.certPem, clientKeyData: pair.keyPem } });
    await writeFile(join(directory, "1"), answer(first));
    await writeFile(join(directory, "2"), answer(second));
    const access = connect(shell(`echo x >> "$1"; cat "$(dirname "$1")/$(wc -l < "$1" | tr -d ' ')"`));
    const before: Credentials = await access.credentials();
    expect(before).toMatchObject({ tls: { cert: first.certPem, key: first.keyPem }, headers: {} });
    const ttl = async (): Promise<number> =>
      sampleOf((await metrics.render()).body, "rest_client_exec_plugin_ttl_seconds") ?? Number.NaN;
    expect(Math.round((await ttl()) / 86_400)).toBe(365);
    expect((await access.credentials({ rejected: before })).tls.cert).toBe(second.certPem);
    const age = sampleOf((await metrics.render()).body, "rest_client_exec_plugin_certificate_rotation_age_sum");
    expect(Math.round((age ?? 0) / 600)).toBe(6);
  });

  test.each(["an unreadable certificate", "an unreadable key", "the key of another certificate"])(
    "a credential plugin that returns %s is run again: it is not kept",
    async (what) => {
      const [first, second] = await Promise.all([selfSigned("", Date.now()), selfSigned("", Date.now())]);
      const broken = {
        clientCertificateData: what === "an unreadable certificate" ? first.certPem.slice(0, 100) : first.certPem,
        clientKeyData: what === "an unreadable key" ? first.keyPem.slice(0, 100) : second.keyPem,
      };
      const good = { clientCertificateData: second.certPem, clientKeyData: second.keyPem };
      await writeFile(join(directory, "answer"), JSON.stringify({ status: broken }));
      const access = connect({ command: "cat", args: [join(directory, "answer")] });
      expect(await failure(access)).toContain("printed an invalid certificate, or a key that does not match it");
      await writeFile(join(directory, "answer"), JSON.stringify({ status: good }));
      expect(await access.credentials()).toMatchObject({ tls: { cert: second.certPem, key: second.keyPem } });
    },
  );

  test("a credential plugin that returns the same certificate again has not rotated it", async () => {
    const { certPem, keyPem } = await selfSigned("", Date.now());
    const status = { clientCertificateData: certPem, clientKeyData: keyPem };
    await writeFile(join(directory, "answer"), JSON.stringify({ status }));
    const access = connect({ command: "cat", args: [join(directory, "answer")] });
    await access.credentials({ rejected: await access.credentials() });
    expect(await calls(0, "no_error")).toBe(2);
    const name = "rest_client_exec_plugin_certificate_rotation_age_count";
    expect(sampleOf((await metrics.render()).body, name) ?? 0).toBe(0);
  });

  test("a credential plugin that reads its input finds it empty, and takes nothing from that of the host", async () => {
    const exec = shell(`line=""; read line; printf '{"status":{"token":"t%s"}}' "$line"`);
    const script = `
      const { apiServerOf } = await import(${JSON.stringify(require.resolve(credentials))});
      const cluster = { name: "c", server: "https://127.0.0.1:6443", skipTLSVerify: false };
      const access = apiServerOf(cluster, { name: "jane", exec: ${JSON.stringify(exec)} });
      console.log((await access.credentials()).headers.Authorization, await Bun.stdin.text());`;
    await using host = Bun.spawn([process.execPath, "-e", script], {
      stdin: Buffer.from("typed\n"),
      stdout: "pipe",
      timeout: 20_000,
    });
    expect(await host.stdout.text()).toBe("Bearer t typed\n\n");
  }, 120_000);

  test.each([
    ["waits for a program of its own", "sleep 40; echo late"],
    ["ignores SIGTERM", "trap '' TERM; sleep 40; echo late"],
  ])("a credential plugin that %s is given up and killed after a minute", async (_, script) => {
    const clock = manualClock();
    const failed = failure(connect(shell(`echo $$ > "$1"; ${script}`), clock));
    const pid = (): Promise<number> => Bun.file(join(directory, "own")).text().then(Number);
    await eventually("it runs", async () => (await pid()) > 0 && clock.sleepers > 0);
    await clock.advance(60_000);
    expect(await failed).toContain('the credential plugin of user "jane" did not end within 60 s');
    await eventually("it has ended", async () => !isRunning(await pid()));
    expect(await calls(1, "client_internal_error")).toBe(1);
  });

  test("a credential plugin is killed with what it has started", async () => {
    const clock = manualClock();
    const failed = failure(connect(shell(`(sleep 1; touch "$1.late") & echo $$ > "$1"; wait`), clock));
    await eventually("it runs", async () => (await Bun.file(join(directory, "own")).exists()) && clock.sleepers > 0);
    await clock.advance(60_000);
    await failed;
    await Bun.sleep(1_500);
    expect(await Bun.file(join(directory, "own.late")).exists()).toBeFalse();
  });

  test("is run again when its credential was rejected", async () => {
    const access = connect(printing({ token: "t" }));
    const before = await access.credentials();
    await access.credentials({ rejected: before });
    expect(await calls(0, "no_error")).toBe(2);
  });

  test.each([
    ["has expired", -1000, 2],
    ["is still valid", 3_600_000, 1],
  ])("runs again only if its credential expired: one that %s", async (_, validForMs, runs) => {
    const clock = manualClock();
    const expirationTimestamp = new Date(Date.now() + validForMs).toISOString();
    const access = connect(printing({ token: "t", expirationTimestamp }), clock);
    await access.credentials();
    // Credentials are read again after a minute; only then does the plugin's own expiry decide.
    await clock.advance(60_000);
    await access.credentials();
    expect(await calls(0, "no_error")).toBe(runs);
  });

  test("a credential plugin that is not installed is named with the install hint of the kubeconfig", async () => {
    const access = connect({ command: "/nowhere/kubelogin", installHint: "install kubelogin" });
    expect(await failure(access)).toContain(
      'the credential plugin of user "jane" cannot be started (/nowhere/kubelogin); install kubelogin',
    );
    expect(await calls(1, "plugin_not_found_error")).toBe(1);
  });

  test("a credential plugin that fails with a long complaint is quoted with the first 500 characters", async () => {
    const message = await failure(connect(shell("head -c 5000 /dev/zero | tr '\\0' x >&2; exit 3")));
    expect(message).toMatch(/: x{500}$/u);
  });

  test("a credential plugin that fails is quoted with its stderr, not its stdout", async () => {
    const message = await failure(connect(shell("echo top-secret; echo 'please log in' >&2; exit 3")));
    expect(message).toContain('the credential plugin of user "jane" ended with status 3: please log in');
    expect(message).not.toContain("top-secret");
    expect(await calls(3, "plugin_execution_error")).toBe(1);
  });

  test.each([
    ["neither a token nor a certificate", printing({}), "neither a token nor a certificate with its key"],
    [
      "a certificate without its key",
      printing({ clientCertificateData: "x" }),
      "only one of a certificate and its key",
    ],
    ["no status", printing({}, { status: null }), "something other than an ExecCredential"],
    [
      "a time that is none",
      printing({ token: "top-secret", expirationTimestamp: "soon" }),
      "an invalid expirationTimestamp",
    ],
    [
      "another version",
      { ...printing({ token: "top-secret" }, { apiVersion: "v0" }), apiVersion: "v1" },
      "another version than v1",
    ],
    ["nothing, because the command is missing", { args: ["x"] }, "has no command"],
  ])("a credential plugin that prints %s is refused without quoting it", async (_, exec, problem) => {
    const message = await failure(connect(exec));
    expect(message).toContain(problem);
    expect(message).not.toContain("top-secret");
    expect(await calls(1, "client_internal_error")).toBe(1);
  });

  test("a credential plugin that is unused leaves the time to live at infinity", async () => {
    credentialMetrics(metrics.root);
    expect((await metrics.render()).body).toContain("rest_client_exec_plugin_ttl_seconds +Inf\n");
  });
});
