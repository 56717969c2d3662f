import { objectsAt } from "../../../../plugins/azure-cloud/json.ts";
import { defaultLimits } from "../../../../plugins/azure-cloud/simulator/state/limits.ts";
import { propertiesOf } from "../azure-view.ts";
import type { Action } from "../history.ts";
import type { World } from "../world.ts";

export function requests(world: World, { fault, target, host, forMs, pick }: Action): void {
  const afflicted = pick % 3 === 0 ? undefined : host;
  world.note(
    "network",
    `${target} is ${fault} for ${afflicted === undefined ? "all" : `host${afflicted}`}, ${forMs} ms`,
  );
  world.weather.add({ fault, target, host: afflicted, until: world.now + forMs });
}

export function breakWatches(world: World, { pick }: Action): void {
  const how = pick % 2 === 0 ? "abort" : "end";
  world.note("network", `${how}s all watches`);
  world.api.watches.drop(how);
}

export function holdWatches(world: World, { forMs }: Action): void {
  world.note("network", `holds watch events for ${forMs} ms`);
  world.api.watches.pause();
  world.after(forMs, () => world.api.watches.resume());
}

/** Each event of every watch is delivered twice. */
export function repeatWatches(world: World, { forMs }: Action): void {
  world.note("network", `repeats watch events for ${forMs} ms`);
  world.watches.repeat(forMs);
}

/** Watches break, and those that follow deliver older events again. */
export function rewindWatches(world: World, { pick, forMs }: Action): void {
  const events = 1 + (pick % 6);
  world.note("network", `breaks all watches, and repeats their last ${events} events for ${forMs} ms`);
  world.watches.goBack(events, forMs);
  world.api.watches.drop("abort");
}

/** The same, with a pause before each of the older events: a client acts upon one before the next one comes. */
export function replayWatches(world: World, { pick, forMs }: Action): void {
  const events = 1 + (pick % 6);
  world.note("network", `breaks all watches, and repeats their last ${events} events, one each ${forMs} ms`);
  world.watches.goBack(events, forMs, forMs);
  world.api.watches.drop("abort");
}

/** The server of watches is gone, and no client hears of it: their connections stay open, and silent. */
export function loseWatches(world: World, { host, pick }: Action): void {
  const of = pick % 2 === 0 ? undefined : world.hosts[host];
  world.note(
    "network",
    `loses ${of === undefined ? "all watches" : `the watches of host${host}`} without closing them`,
  );
  world.watches.lose(of?.process ?? "all");
}

export function compact(world: World): void {
  world.note("etcd", "forgets its history");
  world.api.compact();
}

const instances = "/virtualMachine";

export const operations = [
  "/loadBalancers/",
  "/publicIPAddresses/",
  "/networkSecurityGroups/",
  "/routeTables/",
  instances,
];

/** Where VMs have network interfaces of their own, half of what happens to instances happens to these. */
const pathFor = ({ cluster }: World, path: string, pick: number): string =>
  path === instances && cluster.virtualMachines.length > 0 && Math.floor(pick / 64) % 2 === 0
    ? "/networkInterfaces/"
    : path;

/** Writes are accepted, and their operations fail. */
export function failOperations(world: World, { pick }: Action): void {
  const path = pathFor(world, operations[pick % operations.length] ?? "", pick);
  world.note("cloud", `fails the next operation on ${path}`);
  world.azure.failNext(
    { path, method: "PUT" },
    { status: 500, code: "InternalServerError", stage: "operation", times: 1 + (pick % 2) },
  );
}

/** Writes of one type are accepted, and their operations take most of an hour. */
export function prolongOperation(world: World, { pick, forMs }: Action): void {
  const path = pathFor(world, operations[pick % operations.length] ?? "", pick);
  world.note("cloud", `lets operations on ${path} last for an hour`);
  world.operations.prolong(path, world.now + 3_600_000 - forMs);
}

/** Reads show resources as they were. */
export function lagReads(world: World, { forMs }: Action): void {
  const lagMs = Math.min(forMs, 20_000);
  world.note("cloud", `reads are ${lagMs} ms behind for ${forMs} ms`);
  world.azure.setReadLag(lagMs);
  world.after(forMs, () => world.azure.setReadLag(0));
}

/** Lists omit an instance for a while, as paging does when the list changes between two pages. */
export function hideInstance(world: World, { pick, forMs }: Action): void {
  const { all } = world.machines;
  const name = all[pick % Math.max(1, all.length)]?.name;
  if (name === undefined) return;
  world.note("cloud", `omits ${name} from lists for ${forMs} ms`);
  world.machines.hide(name, true);
  world.after(forMs, () => world.machines.has(name) && world.machines.hide(name, false));
}

export function revokeTokens(world: World): void {
  world.note("cloud", "revokes all tokens");
  world.azure.revokeTokens();
}

/** Writes of one type are accepted, and their operations fail after most of an hour. */
export function failLateOperation(world: World, { pick, forMs }: Action): void {
  const path = pathFor(world, operations[(pick + 1) % operations.length] ?? "", pick);
  world.note("cloud", `lets operations on ${path} last for an hour, and the next one fail`);
  world.operations.prolong(path, world.now + 3_600_000 - forMs);
  world.azure.failNext({ path, method: "PUT" }, { status: 500, code: "InternalServerError", stage: "operation" });
}

export const denials = [
  ["/publicIPAddresses/", 400],
  ["/loadBalancers/", 403],
  [instances, 409],
  ["/networkSecurityGroups/", 403],
  ["/routeTables/", 403],
] as const;

/** A quota is reached, or a policy denies every write of a type, until an operator lifts it. */
export function denyWrites(world: World, { pick, forMs }: Action): void {
  const [type, status] = denials[pick % denials.length] ?? denials[0];
  const path = pathFor(world, type, pick);
  const lastMs = forMs * 4;
  world.note("cloud", `denies writes of ${path} with ${status} for ${lastMs} ms`);
  world.azure.fail?.({ method: "PUT", path, status, forMs: lastMs });
}

/** What a quota limits, and how much of it is in use. */
export const quotas = [
  ["publicIPAddresses", (world: World) => world.view().publicIPs.length],
  [
    "rulesPerLoadBalancer",
    (world: World) => {
      const balancers = world.view().balancers;
      return Math.max(1, ...balancers.map((one) => objectsAt(propertiesOf(one), "loadBalancingRules").length));
    },
  ],
] as const;

/** A quota is used up, until an operator has raised it: what is there may change, and nothing may be added. */
export function reachQuota(world: World, { pick, forMs }: Action): void {
  const [limit, used] = quotas[pick % quotas.length] ?? quotas[0];
  const lastMs = forMs * 4;
  const most = used(world);
  world.note("cloud", `limits ${limit} to ${most} for ${lastMs} ms`);
  world.azure.setLimits({ [limit]: most });
  world.after(lastMs, () => world.azure.setLimits({ [limit]: defaultLimits[limit] }));
}

export const refusals = [
  ["/publicIPAddresses/", 400, "PublicIPCountLimitReached"],
  ["/loadBalancers/", 403, "RequestDisallowedByPolicy"],
  ["/networkSecurityGroups/", 409, "ScopeLocked"],
  ["/routeTables/", 403, "AuthorizationFailed"],
  [instances, 409, "OperationNotAllowed"],
] as const;

/** A quota, a policy, a lock or a missing role: ARM refuses writes of one type, attempt after attempt. */
export function refuseWrites(world: World, { pick }: Action): void {
  const [type, status, code] = refusals[pick % refusals.length] ?? refusals[0];
  const path = pathFor(world, type, pick);
  const times = 1 + (pick % 12);
  world.note("cloud", `refuses ${times} writes of ${path} with ${code}`);
  world.azure.failNext({ path, method: "PUT" }, { status, code, times });
}
