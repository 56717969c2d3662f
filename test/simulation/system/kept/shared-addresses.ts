import { operations, quotas } from "../actions/network.ts";
import type { History } from "../history.ts";
import { createSharing, history, pickOf, rowWith, share } from "./history.ts";

const cluster = "shared addresses";

/** Of Services that share an address: at first, two have that of a user, each with a port of its own. */
export const sharedAddressHistories: Readonly<Record<string, History>> = {
  "a Service is refused for a port that another one narrows": history(
    { cluster },
    [60, share(0, 2, "of a user, by name", "80 and its own")],
    [75, share(1, 2, "of a user, by name", "80 alone")],
    [90, share(0, 2, "of a user, in its spec", "80 and its own", "192.0.2.0/24")],
  ),
  "a Service leaves the frontend that it shares": history({ cluster }, [45, share(0, 2, "own", "own")]),
  "a Service goes whose public IP another one has": history(
    { cluster },
    [45, share(1, 2, "own", "own")],
    [60, share(0, 2, "of another Service", "own")],
    [90, { kind: "deleteService", pick: 1 }],
  ),
  // Members of the other one hold up the load balancer, and a new one of its own address has it written without the first.
  "a Service asks for a port whose security rules are being written": history(
    { cluster, operationPolls: 21, convergeMinutes: 8 },
    [99, { kind: "prolongOperation", pick: pickOf(rowWith(operations, "/networkSecurityGroups/")), forMs: 3_470_000 }],
    [100, { kind: "killHost" }],
    [102, createSharing(2, "own", "own")],
    [103, share(0, 3, "of a user, in its spec", "80 and its own", "192.0.2.0/24")],
    [200, createSharing(3, "of a user, by name", "80 alone")],
  ),
  // The security rules are written before ARM refuses the load balancer.
  "a Service leaves a shared address on which a quota keeps it from having rules": history(
    { cluster, convergeMinutes: 12 },
    [130, { kind: "reachQuota", pick: pickOf(rowWith(quotas, "rulesPerLoadBalancer")), forMs: 95_000 }],
    [140, createSharing(2, "of a user, by name", "80 and its own")],
    [170, share(2, 3, "own", "own")],
  ),
  "Services share an internal address": history(
    { cluster },
    [45, share(0, 2, "internal", "own")],
    [60, share(1, 2, "internal", "own")],
  ),
};
