import type { SimulatedHost } from "./host-program.ts";
import type { Exchange } from "./runtime/network.ts";
import type { Target } from "./weather.ts";

/** A request of a host, in the terms of invariants. */
export interface HostRequest {
  readonly host: SimulatedHost;
  readonly target: Target;
  readonly exchange: Exchange;
  /** Changes a resource that controllers own: neither a Lease, an event nor a token. */
  readonly isWrite: boolean;
}

export interface WorldObserver {
  sent(request: HostRequest): void;
  /** A request of a host or its reply is going to be lost. */
  lost(host: SimulatedHost, exchange: Exchange): void;
  /** `status` is undefined if no reply came. */
  done(request: HostRequest, text: string, status: number | undefined): void;
}

const notOwned = /\/leases|\/events|\/oauth2\/|\/tokenreviews|\/subjectaccessreviews/u;

export const isOwnedWrite = ({ method, path }: Pick<Exchange, "method" | "path">): boolean =>
  method !== "GET" && !notOwned.test(path);
