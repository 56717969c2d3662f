import type { Action } from "../history.ts";
import type { SimulatedHost } from "../host-program.ts";
import type { World } from "../world.ts";
import { stealLease } from "./leases.ts";

const living = (world: World, { host }: Action): SimulatedHost | undefined => {
  const found = world.hosts[host % world.hosts.length];
  return found?.isAlive === true ? found : undefined;
};

/** A key without an effect on resources changes: everything is prepared again and nothing may be written. */
export function reload(world: World, { pick }: Action): void {
  const vmssCacheTTLInSeconds = 60 + (pick % 900);
  world.note("user", `sets vmssCacheTTLInSeconds to ${vmssCacheTTLInSeconds}`);
  world.writeConfig({ vmssCacheTTLInSeconds });
}

/** A key that shows in every resource changes, until the next change of the config. */
export function retag(world: World, { pick }: Action): void {
  world.note("user", `sets tags to team=${pick}`);
  world.writeConfig({ tags: `team=${pick}` });
}

export function badConfig(world: World, { forMs }: Action): void {
  world.note("user", "writes a broken config");
  world.writeConfig("{ this is not a config");
  world.after(forMs, () => world.writeConfig({}));
}

/** A config that names another load balancer: what is on the present one would move, although no Service has changed. */
export function misconfigure(world: World, { forMs }: Action): void {
  world.note("user", "writes a config with the name of another load balancer");
  world.writeConfig({ loadBalancerName: "other" });
  world.after(forMs, () => world.writeConfig({}));
}

/** A secret that the cloud does not accept: the leader continues with the one that it has. */
export function wrongCredentials(world: World, { forMs }: Action): void {
  world.note("user", "writes a config with another secret");
  world.writeConfig({ aadClientSecret: "not-the-secret" });
  world.after(forMs, () => world.writeConfig({}));
}

/** The former secret is invalid at once; the config has the new one after a while, perhaps before any process notices. */
export function rotateCredentials(world: World, { pick, forMs }: Action): void {
  world.note("user", "rotates the client secret");
  world.rotateSecret(pick % 2 === 0 ? 0 : forMs);
}

export function killHost(world: World, action: Action): void {
  const host = living(world, action);
  if (host === undefined) return;
  world.note("node", `kills host${host.index}`);
  host.kill();
}

/** Kills a process when one of its next writes has taken effect, before it hears of it. */
export function killAtWrite(world: World, action: Action): void {
  const host = living(world, action);
  if (host === undefined) return;
  const writes = 1 + (action.pick % 5);
  world.note("node", `kills host${host.index} at its write no. ${writes} from now`);
  host.afterWrites(writes, () => {
    world.note("node", `kills host${host.index}`);
    host.kill();
  });
}

/** Pauses a process between one of its next writes and the reply, for longer than its lease is valid. */
export function pauseAtWrite(world: World, action: Action): void {
  const host = living(world, action);
  if (host === undefined) return;
  const writes = 1 + (action.pick % 5);
  const forMs = Math.max(world.lease.durationMs + 1_000, 16_000 + action.forMs);
  world.note("node", `pauses host${host.index} at its write no. ${writes} from now, for ${forMs} ms`);
  host.afterWrites(writes, () => {
    world.note("node", `pauses host${host.index}`);
    host.process.pause();
    world.after(forMs, () => host.process.resume());
  });
}

export function stopHost(world: World, action: Action): void {
  const host = living(world, action);
  if (host === undefined) return;
  world.note("node", `stops host${host.index}`);
  host.stop();
}

/** What ends the work of a process, or of its generation, while a write is on its way to Azure. */
export const endings: readonly ((world: World, action: Action) => void)[] = [
  stopHost,
  stopHost,
  reload,
  retag,
  stealLease,
];

export function endAtWrite(world: World, action: Action): void {
  const host = living(world, action);
  if (host === undefined) return;
  const writes = 1 + (action.pick % 5);
  const end = endings[Math.floor(action.pick / 5) % endings.length] ?? stopHost;
  world.note("node", `ends the work of host${host.index} at its write no. ${writes} from now`);
  host.atWrites(writes, () => world.after(1, () => end(world, action)));
}

export function pauseHost(world: World, action: Action): void {
  const host = living(world, action);
  if (host === undefined) return;
  world.note("node", `pauses host${host.index} for ${action.forMs} ms`);
  host.process.pause();
  world.after(action.forMs, () => host.process.resume());
}

export function stepClock(world: World, action: Action): void {
  const host = living(world, action);
  if (host === undefined) return;
  const ms = (action.pick % 2 === 0 ? 1 : -1) * action.forMs * 60;
  world.note("node", `sets the clock of host${host.index} by ${ms} ms`);
  host.process.step(ms);
}
