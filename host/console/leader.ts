import { CodedError, kinds, type KubeClient } from "cloud-controller-host/sdk";

import type { ApiServer } from "../kube/connection/credentials.ts";
import { forwardPort, type PortForward } from "../kube/connection/port-forward.ts";
import { announcedBy } from "../process/leader-election/announcement.ts";
import type { Forward } from "./loopback.ts";

export interface LeaderOptions {
  readonly api: ApiServer;
  readonly client: KubeClient;
  /** Namespace of the Pods. */
  readonly namespace: string;
  readonly lease: { readonly namespace: string; readonly name: string };
  readonly selector: string;
  /** The secure port of the host. */
  readonly port: number;
}

/** A request asks for the holder of the Lease at most so often. */
const checkMs = 2_000;
/** The first may go to the Pod that led before. */
const attempts = 2;

/** Phases of Pods that are kept after their end, such as evicted ones. */
const ended: ReadonlySet<string> = new Set(["Succeeded", "Failed"]);

interface Tunnel {
  readonly pod: string;
  readonly opening: Promise<PortForward>;
}

/** Sends requests to the Pod that holds the Lease, with the caller's own credentials; it follows a hand-over. */
export class Leader implements AsyncDisposable {
  readonly #options: LeaderOptions;
  #tunnel: Tunnel | undefined;
  #finding: Promise<string> | undefined;
  #checkedAt = Number.NEGATIVE_INFINITY;

  constructor(options: LeaderOptions) {
    this.#options = options;
  }

  readonly forward: Forward = async (path, headers, signal) => {
    for (let left = attempts - 1; ; left--) {
      const { pod, opening } = await this.#tunnelToLeader();
      const { tls, headers: own } = await this.#options.api.credentials();
      const { Authorization: token } = own;
      if (token !== undefined) headers.set("Authorization", token);
      const { cert, key } = tls;
      const forward = await opening;
      try {
        // The Pod's certificate is usually its own; the way to it is that of the API server and the kubelet.
        const certificate = cert !== undefined && key !== undefined ? { cert, key } : {};
        return await fetch(`https://127.0.0.1:${forward.port}${path}`, {
          headers,
          signal,
          redirect: "manual",
          proxy: false,
          tls: { rejectUnauthorized: false, ...certificate },
        });
      } catch (error) {
        if (left === 0 || signal.aborted)
          throw forward.failure === undefined ? error : notForwarded(pod, forward.failure);
        this.#checkedAt = Number.NEGATIVE_INFINITY;
      }
    }
  };

  /** The name of the leader's Pod. Rejects with what to do where it cannot be found. */
  async find(): Promise<string> {
    const { client, namespace, lease, selector } = this.#options;
    const found = await client.get(kinds.Lease, lease);
    const holder = found.spec?.holderIdentity ?? "";
    if (holder === "") throw notFound(`the Lease ${lease.namespace}/${lease.name} has no holder`);
    const host = hostNameOf(holder, announcedBy(found)?.shard ?? "");
    const pods = await client.list(kinds.Pod, { namespace, labelSelector: selector });
    const pod = pods
      .filter(({ status }) => !ended.has(status?.phase ?? ""))
      .find(({ metadata, spec }) => metadata?.name === host || spec?.nodeName === host);
    if (pod?.metadata?.name !== undefined) return pod.metadata.name;
    throw notFound(
      `no Pod in ${namespace} with the labels ${selector} is called ${host} or runs on the node ${host}, which holds the ` +
        `Lease ${lease.name}; name them with --namespace and --selector, and a shard with --shard`,
    );
  }

  async #tunnelToLeader(): Promise<Tunnel> {
    if (this.#tunnel === undefined || performance.now() - this.#checkedAt >= checkMs) {
      this.#checkedAt = performance.now();
      this.#finding ??= this.find().finally(() => (this.#finding = undefined));
      const pod = await this.#finding;
      if (pod !== this.#tunnel?.pod) await this.#close();
      this.#tunnel ??= this.#open(pod);
    }
    return this.#tunnel;
  }

  #open(pod: string): Tunnel {
    const { api, namespace, port } = this.#options;
    const tunnel = { pod, opening: forwardPort(api, { namespace, pod, port }) };
    tunnel.opening.catch(() => {
      if (this.#tunnel === tunnel) this.#tunnel = undefined;
    });
    return tunnel;
  }

  /** Streams of the Pod that led before end with it: the page connects again. */
  async #close(): Promise<void> {
    const tunnel = this.#tunnel;
    this.#tunnel = undefined;
    const forward = await tunnel?.opening.catch(() => undefined);
    await forward?.[Symbol.asyncDispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#close();
  }
}

/** Without the UUID of an identity and, with `--shard`, the shard's name before it. No name ends in a dash. */
function hostNameOf(identity: string, shard: string): string {
  const name = identity.replace(/_[^_]*$/u, "");
  const end = `-${shard}`;
  return name.endsWith(end) ? name.slice(0, -end.length) : name;
}

const notFound = (message: string): CodedError => new CodedError("LeaderNotFound", message);
const notForwarded = (pod: string, reason: string): CodedError =>
  new CodedError("LeaderNotFound", `no port of the Pod ${pod} is forwarded: ${reason}`);
