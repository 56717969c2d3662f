import { accessSync, constants, existsSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, dirname, join, resolve } from "node:path";

import { type Cluster, KubeConfig, type User } from "@kubernetes/client-node";
import { CodedError } from "cloud-controller-host/sdk";
import { parse } from "yaml";

import type { CredentialObserver } from "./credential-metrics.ts";
import { type ApiServer, apiServerOf } from "./credentials.ts";
import { isRecord } from "./wire.ts";

const serviceAccountToken = "/var/run/secrets/kubernetes.io/serviceaccount/token";

interface ApiServerFlags {
  readonly kubeconfig?: string | undefined;
  readonly master?: string | undefined;
  /** Receives the results of credential reads. */
  readonly observer?: CredentialObserver;
}

/**
 * Finds the API server: the file of `--kubeconfig`; else, with `--master` alone, that server and no credentials; else
 * the pod's service account; else `$KUBECONFIG` or `~/.kube/config`. `--master` overrides the server of a kubeconfig.
 * Reads files, sends nothing. Throws a `CodedError` of one line that names the flag or path and what to do.
 */
export function loadApiServer(options: ApiServerFlags): ApiServer {
  const { cluster, user, what } = find(options);
  checkFiles(cluster, user, what);
  const { proxyUrl } = cluster;
  if (proxyUrl && !/^https?:/.test(proxyUrl))
    return fail(
      `${what}: its proxy-url begins with "${proxyUrl.split(":", 1)[0]}:"; only http and https proxies can be used`,
    );
  const { master, observer } = options;
  return apiServerOf({ ...cluster, server: serverURL(cluster, master, what) }, user, { observer });
}

interface Found {
  readonly cluster: Cluster;
  readonly user: User;
  /** The flag or file that it was read from, for messages. */
  readonly what: string;
}

const fail = (message: string): never => {
  throw new CodedError("ApiServerConfig", message);
};

function find({ kubeconfig, master }: ApiServerFlags): Found {
  if (kubeconfig) return current([kubeconfig], `--kubeconfig=${kubeconfig}`);
  if (master) {
    const cluster = { name: "master", server: master, skipTLSVerify: false };
    return { cluster, user: { name: "nobody" }, what: `--master=${master}` };
  }
  if (inCluster()) {
    const config = new KubeConfig();
    config.loadFromCluster();
    return chosen(config, "the pod's service account");
  }
  const files = defaultFiles();
  if (files.length > 0) return current(files, files.join(delimiter));
  return fail(
    "no API server to talk to: give --kubeconfig=<file>, or --master=<url>, set KUBECONFIG, or run in a pod whose service account token is mounted",
  );
}

const inCluster = (): boolean =>
  Boolean(process.env["KUBERNETES_SERVICE_HOST"] && process.env["KUBERNETES_SERVICE_PORT"]) &&
  existsSync(serviceAccountToken);

function defaultFiles(): readonly string[] {
  const listed = process.env["KUBECONFIG"]?.split(delimiter).filter((file) => file !== "") ?? [];
  const files = listed.length > 0 ? listed : [join(process.env["HOME"] ?? homedir(), ".kube", "config")];
  return files.filter((file) => existsSync(file));
}

const absent = <T extends { readonly name: string }>(present: readonly T[], item: T): boolean =>
  !present.some((other) => other.name === item.name);

/** The current context of one or more files; where files define the same name, the first one applies. */
function current(files: readonly string[], what: string): Found {
  const merged = new KubeConfig();
  for (const file of files) {
    const one = readKubeconfig(file, what);
    one.clusters.filter((item) => absent(merged.clusters, item)).forEach((item) => merged.addCluster(item));
    one.users.filter((item) => absent(merged.users, item)).forEach((item) => merged.addUser(item));
    one.contexts.filter((item) => absent(merged.contexts, item)).forEach((item) => merged.addContext(item));
    if (!merged.currentContext) merged.setCurrentContext(one.currentContext);
  }
  return chosen(merged, what);
}

function chosen(config: KubeConfig, what: string): Found {
  const name = config.currentContext;
  if (!name) return fail(`${what}: current-context is not set; set it with "kubectl config use-context <name>"`);
  const context = config.getContextObject(name);
  if (context === null) return fail(`${what}: current-context is "${name}", but that context does not exist`);
  const cluster = config.getCluster(context.cluster);
  if (cluster === null)
    return fail(`${what}: context "${name}" names the cluster "${context.cluster}", which is not defined there`);
  const user = context.user ? config.getUser(context.user) : { name: "nobody" };
  if (user === null)
    return fail(`${what}: context "${name}" names the user "${context.user}", which is not defined there`);
  return { cluster, user, what };
}

function readKubeconfig(file: string, what: string): KubeConfig {
  const text = readText(file, what);
  const config = new KubeConfig();
  try {
    config.loadFromString(text);
    config.makePathsAbsolute(dirname(resolve(file)));
    const document: unknown = parse(text, { logLevel: "error" });
    config.users = config.users.map((user) => withTokenFile(user, document, file));
  } catch (error) {
    // Only the first line: the rest quotes the file, secrets included.
    const [line = ""] = error instanceof Error ? error.message.split("\n") : [];
    return fail(`${what}: ${file} is not a kubeconfig file: ${line}`);
  }
  return config;
}

function readText(file: string, what: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    return fail(`${what}: cannot read ${file} (${codeOf(error)}); give the path of a readable kubeconfig file`);
  }
}

/** client-node does not know a user's `tokenFile`; it does know the form that it uses in a cluster. */
function withTokenFile(user: User, document: unknown, file: string): User {
  const users = isRecord(document) && Array.isArray(document["users"]) ? document["users"] : [];
  for (const entry of users) {
    const fields: unknown = isRecord(entry) && entry["name"] === user.name ? entry["user"] : undefined;
    if (!isRecord(fields) || typeof fields["tokenFile"] !== "string") continue;
    const tokenFile = resolve(dirname(resolve(file)), fields["tokenFile"]);
    // The file takes precedence over an inline token.
    const { token: _, ...others } = user;
    return { ...others, authProvider: { name: "tokenFile", config: { tokenFile } } };
  }
  return user;
}

/** Checks now that files needed by a request exist, where messages can name the entry that refers to them. */
function checkFiles(cluster: Cluster, user: User, what: string): void {
  const provider: unknown = user.authProvider;
  const config = isRecord(provider) && isRecord(provider["config"]) ? provider["config"] : {};
  const files = {
    "certificate-authority": cluster.caFile,
    "client-certificate": user.certFile,
    "client-key": user.keyFile,
    tokenFile: config["tokenFile"],
  };
  for (const [field, file] of Object.entries(files)) {
    if (typeof file !== "string" || file === "") continue;
    try {
      accessSync(file, constants.R_OK);
    } catch (error) {
      fail(`${what}: cannot read ${file} (${codeOf(error)}), which its field ${field} names`);
    }
  }
}

const codeOf = (error: unknown): string => (isRecord(error) && typeof error["code"] === "string" ? error["code"] : "?");

/** `host:port` alone stands for https if the kubeconfig has TLS settings, otherwise for http. upstream: `DefaultServerURL`. */
function serverURL(cluster: Cluster, master: string | undefined, what: string): string {
  const server = master || cluster.server;
  const flag = master ? `--master=${server}` : `${what}: its server "${server}"`;
  const secure = Boolean(cluster.caFile || cluster.caData || cluster.skipTLSVerify);
  const url = server.includes("://") ? server : `${secure ? "https" : "http"}://${server}`;
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed === undefined || !/^https?:$/.test(parsed.protocol))
    return fail(`${flag} is not the URL of an API server; write it like https://10.0.0.1:6443`);
  return url.replace(/\/+$/, "");
}
