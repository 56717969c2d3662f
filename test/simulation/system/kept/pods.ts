import type { History } from "../history.ts";
import { changeLocal, history } from "./history.ts";

const cluster = "Pods on several load balancers";

/** Of Services with pools of their own. */
export const podHistories: Readonly<Record<string, History>> = {
  "Pods move while their Service is refused": history(
    { cluster, services: 2, eventfulMinutes: 5 },
    [130, changeLocal(1, 2, '"azure-load-balancer-tcp-idle-timeout":"1"')],
    [140, { kind: "movePods", pick: 1, forMs: 20_000 }],
  ),
  "Pods of a Service move": history({ cluster, services: 2, eventfulMinutes: 5 }, [
    130,
    { kind: "movePods", pick: 1, forMs: 20_000 },
  ]),
  "a Service with a pool of its own moves to another load balancer": history(
    { cluster, services: 3, eventfulMinutes: 4 },
    [110, changeLocal(2, 3, "azure-load-balancer-configurations")],
    [150, changeLocal(2, 3)],
  ),
};
