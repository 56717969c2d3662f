import { accessSync, constants, existsSync } from "node:fs";
import { isIPv6 } from "node:net";
import { homedir } from "node:os";
import { delimiter, dirname, join, resolve } from "node:path";

import type { Cluster, Context, User } from "@kubernetes/client-node";
import { ActionOnInvalid, newClusters, newContexts, newUsers } from "@kubernetes/client-node/dist/config_types.js";
import { CodedError, isObject } from "cloud-controller-host/sdk";
import { parse } from "yaml";

import { readBounded } from "./bounded-text.ts";
import type { CredentialObserver } from "./credential-metrics.ts";
import { type ApiServer, apiServerOf } from "./credentials.ts";
import { textAt } from "./wire.ts";

const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount";

interface ApiServerFlags {
  readonly kubeconfig?: string | undefined;
  /** The flag that named the kubeconfig, for messages. Default `--kubeconfig`. */
  readonly flag?: string;
  readonly master?: string | undefined;
  /** Receives the results of credential reads. */
  readonly observer?: CredentialObserver;
  /** Folder with the files of a pod's service account. */
  readonly podFiles?: string;
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

function find({ kubeconfig, flag = "--kubeconfig", master, podFiles = serviceAccount }: ApiServerFlags): Found {
  if (kubeconfig) return current([kubeconfig], `${flag}=${kubeconfig}`);
  if (master) {
    const cluster = { name: "master", server: master, skipTLSVerify: false };
    return { cluster, user: anonymous, what: `--master=${master}` };
  }
  if (inCluster(podFiles)) return podServiceAccount(podFiles);
  const files = defaultFiles();
  if (files.length > 0) return current(files, files.join(delimiter));
  return fail(
    "no API server is configured: set --kubeconfig=<file> or --master=<url>, set KUBECONFIG, or run in a Pod with a mounted service account token",
  );
}

const inCluster = (files: string): boolean =>
  Boolean(process.env["KUBERNETES_SERVICE_HOST"] && process.env["KUBERNETES_SERVICE_PORT"]) &&
  existsSync(join(files, "token"));

/** upstream: `rest.InClusterConfig`, which uses https always. */
function podServiceAccount(files: string): Found {
  const { KUBERNETES_SERVICE_HOST: host = "", KUBERNETES_SERVICE_PORT: port = "" } = process.env;
  const server = `https://${isIPv6(host) ? `[${host}]` : host}:${port}`;
  return {
    cluster: { name: "inCluster", server, caFile: join(files, "ca.crt"), skipTLSVerify: false },
    user: tokenFileUser("inClusterUser", join(files, "token")),
    what: "the pod's service account",
  };
}

/** A user in the form that client-node uses for a token in a file. */
const tokenFileUser = (name: string, tokenFile: string): User => ({
  name,
  authProvider: { name: "tokenFile", config: { tokenFile } },
});

function defaultFiles(): readonly string[] {
  const listed = process.env["KUBECONFIG"]?.split(delimiter).filter((file) => file !== "") ?? [];
  const files = listed.length > 0 ? listed : [join(process.env["HOME"] ?? homedir(), ".kube", "config")];
  return files.filter((file) => existsSync(file));
}

interface KubeconfigUser extends User {
  /** Its fields of `unsupported`. */
  readonly unsupported: readonly string[];
}

/** Sends no credentials. */
const anonymous: KubeconfigUser = { name: "anonymous", unsupported: [] };

interface Kubeconfig {
  readonly clusters: readonly Cluster[];
  readonly users: readonly KubeconfigUser[];
  readonly contexts: readonly Context[];
  readonly currentContext: string | undefined;
  /** Names of clusters without a server and of contexts without a cluster: an error where they are used. */
  readonly incomplete: Readonly<Record<"clusters" | "contexts", readonly string[]>>;
}

/** The current context of one or more files; where files define the same name, the first one applies. */
function current(files: readonly string[], what: string): Found {
  const all = files.map((file) => readKubeconfig(file, what));
  return chosen(
    {
      clusters: all.flatMap(({ clusters }) => clusters),
      users: all.flatMap(({ users }) => users),
      contexts: all.flatMap(({ contexts }) => contexts),
      currentContext: all.find(({ currentContext }) => currentContext)?.currentContext,
      incomplete: {
        clusters: all.flatMap(({ incomplete }) => incomplete.clusters),
        contexts: all.flatMap(({ incomplete }) => incomplete.contexts),
      },
    },
    what,
  );
}

const byName = <T extends { readonly name: string }>(items: readonly T[], name: string): T | undefined =>
  items.find((item) => item.name === name);

function chosen({ clusters, users, contexts, currentContext: name, incomplete }: Kubeconfig, what: string): Found {
  if (!name) return fail(`${what}: current-context is not set; set it with "kubectl config use-context <name>"`);
  const context = byName(contexts, name);
  if (context === undefined)
    return fail(
      `${what}: current-context is "${name}", but that context ${incomplete.contexts.includes(name) ? "names no cluster" : "does not exist"}`,
    );
  const cluster = byName(clusters, context.cluster);
  if (cluster === undefined)
    return fail(
      `${what}: context "${name}" names the cluster "${context.cluster}", which ${incomplete.clusters.includes(context.cluster) ? "has no server" : "is not defined there"}`,
    );
  const user = context.user ? byName(users, context.user) : anonymous;
  if (user === undefined)
    return fail(`${what}: context "${name}" names the user "${context.user}", which is not defined there`);
  if (user.unsupported.length > 0)
    return fail(
      `${what}: its user "${user.name}" has ${user.unsupported.join(", ")}; only "as" can be impersonated, so use a user that has the permissions itself`,
    );
  if ((user.certFile || user.certData) && !user.keyFile && !user.keyData)
    return fail(`${what}: its user "${user.name}" has a client certificate without its key`);
  return { cluster, user, what };
}

/** Only client-node's decoders are imported: the rest of it takes 0.3 s of processor time and 40 MiB. */
function readKubeconfig(file: string, what: string): Kubeconfig {
  const text = readText(file, what);
  try {
    const document: unknown = parse(text, { logLevel: "error" });
    if (!isObject(document)) throw new Error("it is not a YAML mapping");
    const listed = (name: string): unknown[] => (Array.isArray(document[name]) ? [...document[name]] : []);
    const { "current-context": currentContext } = document;
    const [clusters, users, contexts] = [
      newClusters(listed("clusters"), onlyComplete),
      newUsers(listed("users"), onlyComplete),
      newContexts(listed("contexts"), onlyComplete),
    ];
    return {
      clusters: unique(clusters).map((it) => withAbsolutePath(it, "caFile", file)),
      users: unique(users).map((user) => withFiles(user, document, file)),
      contexts: unique(contexts),
      currentContext: typeof currentContext === "string" ? currentContext : undefined,
      incomplete: {
        clusters: othersIn(listed("clusters"), clusters),
        contexts: othersIn(listed("contexts"), contexts),
      },
    };
  } catch (error) {
    // Only the first line: the rest quotes the file, secrets included.
    const [line = ""] = error instanceof Error ? error.message.split("\n") : [];
    return fail(`${what}: ${file} is not a kubeconfig file: ${line.replace(/:$/u, "")}`);
  }
}

/** `kubectl config set-context` alone leaves an entry without a cluster. upstream: `clientcmd.ConfirmUsable`. */
const onlyComplete = { onInvalidEntry: ActionOnInvalid.FILTER };

/** Names of the entries that are not among the decoded ones. */
const othersIn = (entries: readonly unknown[], decoded: readonly { readonly name: string }[]): readonly string[] =>
  entries.flatMap((entry) => (isObject(entry) ? textAt(entry, "name") : [])).filter((name) => !byName(decoded, name));

/** As in client-go, a file must not define a name twice. */
function unique<T extends { readonly name: string }>(items: readonly T[]): readonly T[] {
  const twice = items.find((item) => byName(items, item.name) !== item);
  if (twice !== undefined) throw new Error(`duplicate name "${twice.name}" in list`);
  return items;
}

/** Paths in a kubeconfig are relative to its folder. */
function withAbsolutePath<T extends object>(item: T, field: keyof T, file: string): T {
  const path: unknown = item[field];
  return typeof path === "string" && path !== "" ? { ...item, [field]: resolve(dirname(resolve(file)), path) } : item;
}

function withFiles(user: User, document: unknown, file: string): KubeconfigUser {
  const fields = fieldsOf(user, document);
  const withKeyPair = withAbsolutePath(withAbsolutePath(user, "certFile", file), "keyFile", file);
  const withPaths = withCommand(withTokenFile(withKeyPair, fields, file), file);
  return { ...withPaths, unsupported: unsupported.filter((field) => !isEmpty(fields[field])) };
}

/** Without one of them, requests would have other permissions than intended. A group needs a header of its own. */
const unsupported = ["as-uid", "as-groups", "as-user-extra"];

const isEmpty = (value: unknown): boolean =>
  value === undefined ||
  value === null ||
  value === "" ||
  (typeof value === "object" && Object.keys(value).length === 0);

/** Those of the file, of which client-node knows some. */
function fieldsOf(user: User, document: unknown): Readonly<Record<string, unknown>> {
  const users: readonly unknown[] = isObject(document) && Array.isArray(document["users"]) ? document["users"] : [];
  const entry = users.find((one) => isObject(one) && one["name"] === user.name);
  return isObject(entry) && isObject(entry["user"]) ? entry["user"] : {};
}

/** So is a plugin's command with a slash; one without is looked up in `PATH`. upstream: `GetAuthInfoFileReferences`. */
function withCommand(user: User, file: string): User {
  const exec: unknown = user.exec;
  if (!isObject(exec) || !textAt(exec, "command").includes("/")) return user;
  return { ...user, exec: withAbsolutePath(exec, "command", file) };
}

function readText(file: string, what: string): string {
  try {
    return readBounded(file);
  } catch (error) {
    if (error instanceof CodedError) return fail(`${what}: ${error.message}`);
    return fail(`${what}: cannot read ${file} (${codeOf(error)}); give the path of a readable kubeconfig file`);
  }
}

/** client-node does not know a user's `tokenFile`; it does know the form that it uses in a cluster. */
function withTokenFile(user: User, fields: Readonly<Record<string, unknown>>, file: string): User {
  const named = textAt(fields, "tokenFile");
  if (named === "") return user;
  const tokenFile = resolve(dirname(resolve(file)), named);
  // The file takes precedence over an inline token.
  const { token: _, ...others } = user;
  return { ...others, ...tokenFileUser(user.name, tokenFile) };
}

/** Checks now that files needed by a request exist, where messages can name the entry that refers to them. */
function checkFiles(cluster: Cluster, user: User, what: string): void {
  const provider: unknown = user.authProvider;
  const config = isObject(provider) && isObject(provider["config"]) ? provider["config"] : {};
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

const codeOf = (error: unknown): string => (isObject(error) && typeof error["code"] === "string" ? error["code"] : "?");

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
