import type { Snapshot } from "./snapshot.ts";

/** One way in which ours rightly differs from what the Go provider did. */
export interface Difference {
  readonly what: string;
  readonly reason: string;
  /** Recorded cases that it concerns; undefined: all in which it makes a difference. */
  readonly cases?: readonly string[];
  /** The snapshot of a step as ours should be. */
  readonly ours: (recorded: Snapshot, step: string) => Snapshot;
}

const without = (values: Readonly<Record<string, unknown>>, isLeft: (key: string, value: unknown) => boolean) =>
  Object.fromEntries(Object.entries(values).filter(([key, value]) => !isLeft(key, value)));

/** Names of Services whose load balancer could not be made. */
const failedServices = ({ events }: Snapshot): readonly string[] =>
  events.filter((event) => event.endsWith("Warning SyncLoadBalancerFailed")).map((event) => event.split(" ")[0] ?? "");

export const differences: readonly Difference[] = [
  {
    what: "no public IP of a Service that is refused",
    reason:
      "nothing is written for a Service whose annotations are invalid; the Go provider creates the public IP first",
    ours(recorded) {
      const failed = failedServices(recorded);
      const isTheirs = (value: unknown): boolean =>
        failed.some((name) => JSON.stringify(value).includes(`"k8s-azure-service":"default/${name}"`));
      return {
        ...recorded,
        arm: without(recorded.arm, (id, value) => id.includes("/publicipaddresses/") && isTheirs(value)),
      };
    },
  },
];
