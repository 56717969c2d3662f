/**
 * Processor time of a few milliseconds of fixed work. A machine that is slow, throttled or shared takes longer for that as
 * well, so that limits of tests are of the work and not of the machine.
 */

/** Processor time of the fixed work on the quiet machine that the limits were chosen on. */
const referenceMs = 6.5;
const objects = Array.from({ length: 4_000 }, (_, index) => ({
  name: `web-${index % 97}-${index}`,
  ports: [80, 443, index],
  labels: { app: `app-${index % 13}`, zone: String(index % 3) },
}));

function fixedWork(): number {
  const copies: typeof objects = JSON.parse(JSON.stringify(objects));
  const byApp = Map.groupBy(copies, ({ labels }) => labels.app);
  const sorted = copies.toSorted((one, other) => (one.name < other.name ? -1 : 1));
  const texts = sorted.map(({ name, ports }) => `${name.replaceAll(/\d+/gu, "n")}:${ports.join(",")}`);
  return byApp.size + new Set(texts).size;
}

function spentMs(work: () => unknown): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

/** The factor by which this machine is slower now than the one that limits are for; at least 1. */
export function slowness(): number {
  return Math.max(1, Math.min(...Array.from({ length: 8 }, () => spentMs(fixedWork))) / referenceMs);
}

/** Processor time that work takes, in milliseconds of the machine that limits are for. */
export const processorMs = (work: () => unknown): number => spentMs(work) / slowness();
