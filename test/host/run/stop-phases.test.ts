import { expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";

import { manualClock } from "cloud-controller-host/sdk/testing";

import { createLogger } from "../../../host/process/log/log.ts";
import { stopPhase, stopPhases } from "../../../host/run/stop-phases.ts";
import { SandboxLab } from "../sandbox-lab.ts";

setDefaultTimeout(120_000);

test("a clean stop logs every phase once, in the order of the list", async () => {
  await using lab = await SandboxLab.open();
  const host = lab.start({ flags: [`--audit-log-path=${join(lab.azure.folder, "audit.log")}`] });
  await host.until("it runs", ({ running }) => running);
  expect(await host.stop()).toBe(0);
  const phases = host.lines("Shutdown phase").map((line) => /phase="([^"]+)"/.exec(line)?.[1]);
  // No webhook is served here.
  expect(phases).toEqual(stopPhases.filter((phase) => phase !== "Closing webhook serving"));
  const order = ["Controller stopped", "Draining controllers", "stopped leading", "Releasing leader election lease"];
  const text = host.lines("").join("\n");
  expect(order.map((part) => text.indexOf(part))).toEqual(
    order.map((part) => text.indexOf(part)).toSorted((one, other) => one - other),
  );
});

test("a phase that hangs is left behind at its limit, and one that fails does not stop the rest", async () => {
  const lines: string[] = [];
  const log = createLogger({ format: "json", verbosity: 0, write: (line) => void lines.push(line) });
  const clock = manualClock();
  const hanging = stopPhase({ clock, log }, "Flushing events", () => new Promise(() => undefined));
  await clock.advance(10_000);
  await hanging;
  await stopPhase({ clock, log }, "Flushing telemetry", () => Promise.reject(new Error("boom")));
  expect(lines[0]).toContain("Shutdown phase timed out");
  expect(lines[1]).toMatch(/Shutdown phase failed.*boom|boom.*Shutdown phase failed/);
});

test("the architecture page lists every phase, in order", async () => {
  const page = await Bun.file(join(import.meta.dir, "../../../host/README.md")).text();
  const shutdown = page.slice(page.indexOf("\n## Shutdown\n"), page.indexOf("\n## Glossary\n"));
  const rows = [...shutdown.matchAll(/^\| ([A-Z][^|]+?) +\|/gm)].map(([, phase = ""]) => phase);
  expect(rows.filter((phase) => phase !== "Phase")).toEqual([...stopPhases]);
});
