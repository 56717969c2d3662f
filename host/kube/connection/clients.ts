import type { Clock, Fence, KubeClient } from "cloud-controller-host/sdk";

import type { Tracer } from "../../async/tracer.ts";
import { createClient } from "./client.ts";
import type { ConnectionMetrics } from "./connection-metrics.ts";
import type { ApiServer } from "./credentials.ts";
import { traceTransport } from "./tracing.ts";
import { createTransport, type Transport, type TransportObserver, type TransportOptions } from "./transport.ts";

export interface ClientsOptions {
  /** As in `TransportOptions`; each client name has a budget of its own, like client-go's clients. */
  readonly qps: number;
  readonly burst: number;
  readonly protobuf: boolean;
  /** Program and version, the first part of every user agent. */
  readonly agent: string;
  readonly observer: TransportObserver;
  readonly connections: ConnectionMetrics;
  readonly tracer: Tracer;
  readonly clock: Clock;
  /** As in `TransportOptions`. */
  readonly permissionHint?: string | undefined;
}

/**
 * The process's connections to the API server, one pool per client name. They outlive every reload: a generation's
 * client is a fenced view of them.
 */
export class Clients {
  readonly #api: ApiServer;
  readonly #options: ClientsOptions;
  readonly #transports = new Map<string, Transport>();

  constructor(api: ApiServer, options: ClientsOptions) {
    this.#api = api;
    this.#options = options;
  }

  /** The transport of that name; the options apply only when the first caller creates it. */
  transport(
    name: string,
    own: Partial<Pick<TransportOptions, "timeoutMs" | "dedicated" | "qps" | "burst">> = {},
  ): Transport {
    const { agent, tracer, connections, ...options } = this.#options;
    const known = this.#transports.get(name);
    connections.asked(known !== undefined);
    if (known !== undefined) return known;
    const userAgent = `${agent}/${name}`;
    const transport = traceTransport(createTransport(this.#api, { ...options, ...own, userAgent }), tracer);
    this.#transports.set(name, transport);
    return transport;
  }

  client(name: string, fence?: Fence): KubeClient {
    return createClient(this.transport(name), fence === undefined ? {} : { fence });
  }

  close(): void {
    for (const transport of this.#transports.values()) transport.close();
    this.#options.connections.closed(this.#transports.size);
    this.#transports.clear();
  }
}
