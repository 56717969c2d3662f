import { kinds } from "cloud-controller-host/sdk";

import type { World } from "../world.ts";
import { hasCIDR } from "./problems.ts";
import { refusedIn } from "./refusals.ts";
import type { Violate } from "./table.ts";

const minuteMs = 60_000;
/** Requests of all hosts in a minute, Leases included, in a cluster of up to twenty nodes. */
const maxPerMinute = 1_500;
const fewNodes = 20;
/** More of them for each further node: those of a scale set that is replaced all leave and all come in one minute. */
const maxOfNode = 20;
/** The same of one host at rest, without renewals and reads of the Lease, and with each list as one request. */
const maxAtRest = 30;
/** Where there are several deployments, each reads the Leases of the others. */
const leaseReadsMs = 5_000;
/**
 * More of them when a process starts: for each Service that is refused its condition, events and their counts, and for
 * each node without a CIDR its first attempts.
 */
const maxOfRefused = 8;

/** What it reads of the world. */
type Scene = Pick<World, "api" | "lease" | "now"> &
  Parameters<typeof refusedIn>[0] & {
    readonly history: Pick<World["history"], "second">;
    readonly hosts: Pick<World["hosts"], "length">;
  };

/** Requests per minute have a bound. */
export class Storms {
  readonly #world: Scene;
  readonly #violate: Violate;
  #minute = { number: 0, requests: 0 };
  /** Of the whole history. */
  requests = 0;
  /** Further pages of lists among them. */
  #pages = 0;

  constructor(world: Scene, violate: Violate) {
    this.#world = world;
    this.#violate = violate;
  }

  /** `path`: with its query. */
  sent(path: string): void {
    this.requests += 1;
    if (path.includes("skiptoken=")) this.#pages += 1;
    const number = Math.floor(this.#world.now / minuteMs);
    if (number !== this.#minute.number) this.#minute = { number, requests: 0 };
    this.#minute.requests += 1;
    if (this.#minute.requests < maxPerMinute || this.#minute.requests < this.#bound()) return;
    this.#violate("no request storm", `${this.#minute.requests} requests in a minute`);
  }

  #bound(): number {
    const nodes = this.#world.api.list(kinds.Node).length;
    return maxPerMinute + Math.max(0, nodes - fewNodes) * maxOfNode;
  }

  /**
   * Requests that count at rest: each list as one. Where a page has one item, a process that starts reads as many pages as
   * there are VMs, network interfaces and public IPs.
   */
  get counted(): number {
    return this.requests - this.#pages;
  }

  /** So many requests were sent at rest, in so many milliseconds, without further pages of lists. */
  rested(requests: number, ms: number): void {
    const { hosts, api, lease, history } = this.#world;
    const perMinute = (requests * minuteMs) / ms / hosts.length;
    const refused = refusedIn(this.#world).length + api.list(kinds.Node).filter((node) => !hasCIDR(node)).length;
    const ofOthers = history.second === undefined ? 0 : minuteMs / leaseReadsMs;
    const most = maxAtRest + minuteMs / lease.retryPeriodMs + ofOthers + refused * maxOfRefused;
    if (perMinute > most) this.#violate("no request storm", `${perMinute} requests in a minute of each host at rest`);
  }
}
