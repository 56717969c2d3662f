import type { History } from "../history.ts";
import { history, share } from "./history.ts";

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
  "Services share an internal address": history(
    { cluster },
    [45, share(0, 2, "internal", "own")],
    [60, share(1, 2, "internal", "own")],
  ),
};
