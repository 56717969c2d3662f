import { eventually, manualClock } from "cloud-controller-host/sdk/testing";

import { createTransport } from "../../../../host/kube/connection/transport.ts";
import { InformerPool } from "../../../../host/kube/informers/pool.ts";
import { capturedLog } from "../captured-log.ts";
import { StubApi, type Widget, widgets } from "../stub-api.ts";

export const widget = (name: string, size = 1): Widget => ({ metadata: { name, namespace: "ns" }, spec: { size } });

/** A pool of informers on a manual clock and its API server. */
export class PoolRig implements AsyncDisposable {
  readonly clock = manualClock();
  readonly pool: InformerPool;
  readonly lines: ReturnType<typeof capturedLog>["lines"];
  readonly api: StubApi;

  private constructor(api: StubApi, verbosity: number, catchUpFrom: number | undefined) {
    this.api = api;
    const { log, lines } = capturedLog(verbosity);
    this.lines = lines;
    const transport = createTransport(api.access(), { userAgent: "test", qps: -1 });
    this.pool = new InformerPool({ transport, clock: this.clock, log, catchUpFrom });
  }

  static async start(verbosity = 4, catchUpFrom?: number): Promise<PoolRig> {
    return new PoolRig(await StubApi.start(), verbosity, catchUpFrom);
  }

  /** Starts an informer of widgets, with the deletions that its handler receives. */
  begin() {
    const share = this.pool.share();
    const informer = share.of(widgets);
    const deleted: string[] = [];
    informer.handle({ deleted: (object) => void deleted.push(object.metadata?.name ?? "") });
    return { share, informer, store: informer.store, deleted };
  }

  /** Starts an informer of widgets and waits until it watches. */
  async watch() {
    const begun = this.begin();
    await begun.share.synced();
    await this.watching();
    return begun;
  }

  async watching(): Promise<void> {
    await eventually("it watches", () => this.api.watches === 1);
  }

  /** Moves time until the condition holds. */
  async soon(what: string, holds: () => boolean, stepMs = 1000): Promise<void> {
    await eventually(what, async () => {
      await this.clock.advance(stepMs);
      return holds();
    });
  }

  get lists(): number {
    return this.api.reads.filter((read) => read === "LIST").length;
  }

  /** Changes an object on the server without any watch bringing it, as after a connection is lost without a sign. */
  unseen(object: Widget): void {
    this.api.muted = true;
    this.api.put(widgets, object);
    this.api.muted = false;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.pool.close();
    await this.api.stop();
  }
}
