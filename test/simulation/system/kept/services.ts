import type { History } from "../history.ts";
import { change, create, history } from "./history.ts";

/** Of what users want of Services. */
export const serviceHistories: Readonly<Record<string, History>> = {
  calm: history({}),
  // A minute after the nodes have joined, as all is planned once more then.
  "Services change": history(
    { services: 5 },
    // What no user sets has its default then, and only what the shape says changes.
    [110, change(2, 5)],
    [130, change(0, 5, "tcp-443")],
    [131, change(1, 5, "192.0.2.0/24")],
    [132, change(2, 5, "ClientIP")],
    [133, change(3, 5, '"azure-load-balancer-tcp-idle-timeout":"10"')],
    [134, change(4, 5, '"azure-load-balancer-internal":"true"}}')],
    [135, create(5, "azure-allowed-ip-ranges")],
  ),
  "Services want less": history(
    { services: 4 },
    [45, change(0, 4, "tcp-443")],
    [46, change(1, 4, "azure-pls-create")],
    [47, change(2, 4, "azure-pip-name")],
    [48, change(3, 4, '"azure-load-balancer-tcp-idle-timeout":"10"')],
    [100, change(0, 4)],
    [101, change(1, 4)],
    [102, change(2, 4)],
    [103, change(3, 4)],
  ),
  "Services go": history(
    { services: 4 },
    [45, change(1, 4, "azure-pls-create")],
    [46, change(2, 4, "azure-pip-name")],
    [100, { kind: "deleteService", pick: 1 }],
    [110, { kind: "deleteService", pick: 1 }],
    [120, { kind: "flipService", pick: 0 }],
    [130, { kind: "deleteService", pick: 1 }],
  ),
  "many Services go": history(
    { seed: 10, services: 8 },
    // Five ports each: one write removes more than the removal guard allows without a cause.
    ...[0, 1, 2, 3, 4, 5, 6, 7].map((index) => [115 + index / 10, change(index, 8, "tcp-8443")] as const),
    ...[0, 1, 2, 3, 4, 5, 6].map((index) => [170 + index / 10, { kind: "deleteService", pick: 0 }] as const),
  ),
  "a Service becomes internal": history({ seed: 3, services: 1 }, [
    60,
    change(0, 1, '"azure-load-balancer-internal":"true"}}'),
  ]),
  "the only internal Service goes": history(
    {},
    [130, change(1, 2, '"azure-load-balancer-internal":"true"}}')],
    [180, { kind: "deleteService", pick: 1 }],
  ),
  "a Service changes its type while no process runs": history(
    {},
    [100, { kind: "killHost" }],
    [100.5, { kind: "flipService", pick: 0 }],
  ),
  "the interval of a probe changes": history({ seed: 3, services: 1 }, [60, change(0, 1, "probe-interval")]),
  "a Service is refused": history({}, [60, change(0, 2, '"azure-load-balancer-tcp-idle-timeout":"1"')]),
  "a Service is deleted, and the process killed at its next write": history(
    {},
    [60, { kind: "killAtWrite", pick: 0 }],
    [60.001, { kind: "deleteService", pick: 0 }],
  ),
  "a Service is deleted while no process runs": history(
    {},
    [60, create(2)],
    [100, { kind: "killHost" }],
    [100.5, { kind: "deleteService", pick: 2 }],
  ),
};
