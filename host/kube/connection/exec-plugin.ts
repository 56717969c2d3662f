import { createPrivateKey, X509Certificate } from "node:crypto";

import type { Cluster, User } from "@kubernetes/client-node";
import { type Clock, CodedError, isObject } from "cloud-controller-host/sdk";

import { within } from "../../async/timeout.ts";
import type { CredentialObserver } from "./credential-metrics.ts";
import { textAt } from "./wire.ts";

/** The credential of a plugin: a token, a certificate with its key (PEM), or both. */
export interface PluginCredential {
  readonly token: string;
  readonly cert: string;
  readonly key: string;
}

interface Answer extends PluginCredential {
  /** Milliseconds since 1970; undefined: valid until the API server rejects it. */
  readonly expiresAt: number | undefined;
}

type Config = Readonly<Record<string, unknown>>;

interface ExecPluginParts {
  readonly clock: Clock;
  readonly observer: CredentialObserver | undefined;
}

/** Time limit of one run. Without a terminal, a plugin that prompts would hang. */
const timeLimitMs = 60_000;
const maxBytes = 1024 * 1024;
const usualVersion = "client.authentication.k8s.io/v1";

/**
 * A program named by a kubeconfig to get credentials, run when they have expired or were rejected.
 * upstream: client-go `plugin/pkg/client/auth/exec`.
 */
export class ExecPlugin {
  readonly #user: string;
  readonly #config: Config;
  readonly #cluster: Cluster;
  readonly #clock: Clock;
  readonly #observer: CredentialObserver | undefined;
  #answer: Answer | undefined;

  /** The plugin of a user; undefined without one. */
  static of(user: User, cluster: Cluster, parts: ExecPluginParts): ExecPlugin | undefined {
    const config: unknown = user.exec;
    return isObject(config) ? new ExecPlugin(user.name, config, cluster, parts) : undefined;
  }

  private constructor(user: string, config: Config, cluster: Cluster, { clock, observer }: ExecPluginParts) {
    this.#user = user;
    this.#config = config;
    this.#cluster = cluster;
    this.#clock = clock;
    this.#observer = observer;
  }

  /** `ca`: the content of the cluster's CA file, if it has one. */
  async credential(ca?: string): Promise<PluginCredential> {
    const { expiresAt = Number.POSITIVE_INFINITY } = this.#answer ?? {};
    const before = this.#answer;
    const answer = before !== undefined && Date.now() < expiresAt ? before : await this.#run(ca);
    this.#answer = answer;
    this.#watchCertificate(before?.cert ?? "", answer.cert);
    return answer;
  }

  /** Makes the next call run the plugin again. */
  forget(): void {
    if (this.#answer !== undefined) this.#answer = { ...this.#answer, expiresAt: 0 };
  }

  async #run(ca: string | undefined): Promise<Answer> {
    try {
      const printed = await this.#execute(ca);
      const answer = this.#read(printed);
      this.#observer?.pluginCalled(0, "no_error");
      return answer;
    } catch (error) {
      const { code, outcome } = failureOf(error);
      this.#observer?.pluginCalled(code, outcome);
      throw error;
    }
  }

  async #execute(ca: string | undefined): Promise<string> {
    const command = textAt(this.#config, "command");
    if (command === "") throw this.#failed("has no command");
    const child = this.#spawn([command, ...textsOf(this.#config["args"])], ca);
    const ending = Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
    const ended = await within(this.#clock, timeLimitMs, ending);
    if (!ended.done) {
      endGroup(child.pid);
      throw this.#failed(`did not end within ${timeLimitMs / 1000} s`);
    }
    const [printed, complaint, status] = ended.value;
    if (status === 0) return printed;
    const words = complaint.trim().slice(0, 500);
    const signal = child.signalCode === null ? `ended with status ${status}` : `was ended by ${child.signalCode}`;
    throw this.#failed(words === "" ? `${signal}, without a word` : `${signal}: ${words}`, { status });
  }

  #spawn(command: readonly string[], ca: string | undefined) {
    try {
      return Bun.spawn([...command], {
        env: { ...process.env, ...this.#environment(ca) },
        stdin: "ignore",
        stdout: "pipe",
        stderr: "pipe",
        maxBuffer: maxBytes,
        // A process group of its own: what the plugin has started can outlive it, and keep its output open.
        detached: true,
      });
    } catch (cause) {
      const hint = textAt(this.#config, "installHint").trim();
      const what = `cannot be started (${command[0]})${hint === "" ? "" : `; ${hint}`}`;
      throw this.#failed(what, { cause, missing: isObject(cause) && cause["code"] === "ENOENT" });
    }
  }

  #environment(ca: string | undefined): Record<string, string> {
    const { server, tlsServerName, skipTLSVerify, proxyUrl } = this.#cluster;
    const caData = ca === undefined ? this.#cluster.caData : Buffer.from(ca).toString("base64");
    const cluster = {
      server,
      ...(tlsServerName && { "tls-server-name": tlsServerName }),
      ...(skipTLSVerify && { "insecure-skip-tls-verify": true }),
      ...(caData && { "certificate-authority-data": caData }),
      ...(proxyUrl && { "proxy-url": proxyUrl }),
    };
    const apiVersion = textAt(this.#config, "apiVersion") || usualVersion;
    const spec = { interactive: false, ...(this.#config["provideClusterInfo"] === true && { cluster }) };
    const given: unknown = this.#config["env"];
    const variables: readonly unknown[] = Array.isArray(given) ? given : [];
    return {
      ...Object.fromEntries(variables.filter(isObject).map((item) => [textAt(item, "name"), textAt(item, "value")])),
      KUBERNETES_EXEC_INFO: JSON.stringify({ kind: "ExecCredential", apiVersion, spec }),
    };
  }

  /** The output of a plugin may be the credential itself, so invalid output is never quoted. */
  #read(printed: string): Answer {
    const reply = parseJson(printed);
    const wanted = textAt(this.#config, "apiVersion");
    if (!isObject(reply) || !isObject(reply["status"]))
      throw this.#failed("printed something other than an ExecCredential in JSON");
    if (wanted !== "" && textAt(reply, "apiVersion") !== wanted)
      throw this.#failed(`printed an ExecCredential of another version than ${wanted}`);
    const { status } = reply;
    const [token, cert, key] = ["token", "clientCertificateData", "clientKeyData"].map((name) => textAt(status, name));
    const credential = { token: token ?? "", cert: cert ?? "", key: key ?? "" };
    if (credential.token === "" && credential.cert === "" && credential.key === "")
      throw this.#failed("printed neither a token nor a certificate with its key");
    if ((credential.cert === "") !== (credential.key === ""))
      throw this.#failed("printed only one of a certificate and its key");
    // Kept, it would fail every TLS handshake: no reply could ever reject it.
    if (credential.cert !== "" && isKeyPair(credential.cert, credential.key) !== true)
      throw this.#failed("printed an invalid certificate, or a key that does not match it");
    const expires = textAt(status, "expirationTimestamp");
    const expiresAt = expires === "" ? undefined : Date.parse(expires);
    if (Number.isNaN(expiresAt)) throw this.#failed("printed an invalid expirationTimestamp");
    return { ...credential, expiresAt };
  }

  #watchCertificate(before: string, now: string): void {
    if (this.#observer === undefined || now === "") return;
    this.#observer.pluginCertificate(this, Date.parse(certificateOf(now).validTo));
    if (before !== "" && before !== now)
      this.#observer.pluginCertificateRotated(Date.now() - Date.parse(certificateOf(before).validFrom));
  }

  #failed(what: string, details: ErrorOptions & FailureDetails = {}): PluginError {
    return new PluginError(`the credential plugin of user "${this.#user}" ${what}`, details);
  }
}

interface FailureDetails {
  readonly status?: number;
  readonly missing?: boolean;
}

class PluginError extends CodedError {
  readonly details: FailureDetails;

  constructor(message: string, { cause, ...details }: ErrorOptions & FailureDetails) {
    super("CredentialPlugin", message, cause === undefined ? {} : { cause });
    this.details = details;
  }
}

function failureOf(error: unknown): {
  code: number;
  outcome: Exclude<Parameters<CredentialObserver["pluginCalled"]>[1], "no_error">;
} {
  const { status, missing } = error instanceof PluginError ? error.details : {};
  if (missing === true) return { code: 1, outcome: "plugin_not_found_error" };
  if (status !== undefined) return { code: status, outcome: "plugin_execution_error" };
  return { code: 1, outcome: "client_internal_error" };
}

/** Undefined for what cannot be parsed. upstream: `tls.X509KeyPair`. */
export function isKeyPair(cert: string, key: string): boolean | undefined {
  try {
    return new X509Certificate(cert).checkPrivateKey(createPrivateKey(key));
  } catch {
    return undefined;
  }
}

const certificateOf = (pem: string): X509Certificate => new X509Certificate(pem);

const textsOf = (value: unknown): readonly string[] =>
  Array.isArray(value) ? value.filter((item) => typeof item === "string") : [];

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Kills a process with all that it has started. */
function endGroup(pid: number): void {
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // It has just ended.
  }
}
