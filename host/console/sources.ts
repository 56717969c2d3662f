import type { Clock, Cloud, KindRef, KubeObject, Logger, Store } from "cloud-controller-host/sdk";

import type { ReloadStatus } from "../generation/report/reload-status.ts";
import type { OwnStatus, OwnWarning } from "../generation/slot/own-reports.ts";
import type { RecordedEvent } from "../kube/events/recorder.ts";
import type { BusyItems } from "../kube/queue/busy-items.ts";
import type { MetricSample } from "../process/metrics/metrics.ts";
import type { WriteRecord } from "../process/writes/record.ts";
import type { Plans } from "./plans.ts";

/** `/statusz`, as far as the console shows it. */
export interface ConsoleStatus extends ReloadStatus {
  readonly startedAt: string;
  readonly identity: string;
  readonly leading: boolean;
  readonly leader: string;
  readonly locks: readonly {
    readonly lease: string;
    readonly leading: boolean;
    readonly leader: string;
    readonly expired?: true;
    readonly unread?: true;
    readonly controllers: readonly string[];
  }[];
  /** The shards of the cluster, where this process shares its Services. */
  readonly shards?: readonly { readonly lease: string; readonly leader: string; readonly relation: string }[];
  /** With `--shadow`. */
  readonly shadow?: {
    readonly differences: readonly {
      readonly action: string;
      readonly title: string;
      readonly reasons: readonly string[];
      readonly since: string;
    }[];
    readonly notCompared: readonly string[];
  };
}

/** All that the console reads. None of it writes, and only `explain` sends requests. */
export interface ConsoleSources {
  readonly clock: Clock;
  readonly log: Logger;
  readonly cloudName: string;
  readonly status: () => ConsoleStatus;
  readonly ownStatus: () => readonly OwnStatus[];
  readonly ownWarnings: () => readonly OwnWarning[];
  readonly explain: () => Cloud["explain"];
  readonly writes: { readonly records: readonly WriteRecord[]; readonly count: number };
  readonly events: {
    readonly recent: { readonly leases: readonly RecordedEvent[]; readonly others: readonly RecordedEvent[] };
    readonly count: number;
  };
  readonly metrics: { samples(name: string): Promise<readonly MetricSample[]> };
  readonly plans: Pick<Plans, "revision" | "answer">;
  readonly busy: Pick<BusyItems, "slowest">;
  readonly informers: { stored<T extends KubeObject>(kind: KindRef<T>): Store<T> | undefined };
}
