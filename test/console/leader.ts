import { kinds } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { serveLoopback } from "../../host/console/loopback.ts";
import type { RunningHost } from "../../host/host.ts";
import { freePort } from "../envtest/free-port.ts";
import type { SandboxLab } from "../host/sandbox-lab.ts";
import { joinNodes } from "../kit/azure.ts";
import { addressesOf, balancedService, findService } from "../kit/services.ts";

const flags = [
  "--controllers=service-lb-controller,cloud-node-controller",
  "--enable-dynamic-reloading",
  "--leader-elect-lease-duration=3s",
  "--leader-elect-renew-deadline=2s",
  "--leader-elect-retry-period=500ms",
];

export const start = async (lab: SandboxLab): Promise<RunningHost> =>
  (await lab.host([`--secure-port=${freePort()}`, ...flags])).host;

/** A host that leads, with Service web. */
export async function leader(lab: SandboxLab): Promise<RunningHost> {
  const host = await start(lab);
  await eventually("it leads", () => host.status.leading && host.status.running, 60_000);
  if ((await findService(lab.admin, "web")) !== undefined) return host;
  await joinNodes(lab.admin, lab.azure, 1);
  await lab.admin.create(kinds.Service, balancedService("web"));
  await eventually(
    "web has an address",
    async () => addressesOf(await findService(lab.admin, "web")).length > 0,
    60_000,
  );
  return host;
}

export async function stop(host: RunningHost): Promise<void> {
  host.stop();
  await host.finished;
}

/** The console of a host on loopback, as `cloud-controller-host console` serves it. */
export const consoleOf = (lab: SandboxLab, host: RunningHost) =>
  serveLoopback(0, (path, headers, signal) => {
    headers.set("Authorization", `Bearer ${lab.api.tokens.of("admin")}`);
    return fetch(`${host.url}${path}`, { headers, signal, tls: { rejectUnauthorized: false } });
  });
