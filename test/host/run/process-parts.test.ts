import { describe, expect, test } from "bun:test";

import { kinds } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { readCommand } from "../../../host/cli/command.ts";
import { createParts, type ProcessParts } from "../../../host/run/process-parts.ts";
import { SandboxLab } from "../sandbox-lab.ts";

const many = 100;

async function parts(
  lab: SandboxLab,
  ending: AsyncDisposableStack,
  flags: readonly string[] = [],
): Promise<ProcessParts> {
  const input = await readCommand(lab.flags(["--kube-api-qps=-1", ...flags]), {
    environment: {},
    stdout: () => undefined,
    stderr: () => undefined,
    width: 100,
  });
  if ("status" in input) throw new Error("the command line is refused");
  return createParts({ ...input, writeLog: () => undefined }, ending);
}

/** More than are sent at once, each about an object of its own. */
function tell({ events }: ProcessParts): void {
  const recorder = events.recorder("test");
  for (let index = 0; index < many; index++) {
    const subject = { apiVersion: "v1", kind: "Node", metadata: { name: `node-${index}` } };
    recorder.event(subject, "Normal", "Told", "something has happened");
  }
}

test.each([
  ["by default", [], true],
  ["if the flag names it", ["--kube-api-content-type=application/vnd.kubernetes.protobuf"], true],
  ["unless the flag names JSON", ["--kube-api-content-type=application/json"], false],
])("informers may read protobuf %s", async (_, flags, expected) => {
  await using lab = await SandboxLab.open();
  await using ending = new AsyncDisposableStack();
  const { clients } = await parts(lab, ending, flags);
  expect(clients.transport("shared-informers").protobuf).toBe(expected);
});

describe("events that wait at the end of the process", () => {
  test("are sent before the connections close", async () => {
    await using lab = await SandboxLab.open();
    await using ending = new AsyncDisposableStack();
    const made = await parts(lab, ending);
    lab.api.faults.latency(20);
    tell(made);
    await ending.disposeAsync();
    const kept = lab.api.list(kinds.Event).filter(({ reason }) => reason === "Told");
    expect(new Set(kept.map(({ involvedObject }) => involvedObject.name)).size).toBe(many);
  });

  test("do not keep it from ending when the API server does not answer", async () => {
    await using lab = await SandboxLab.open();
    await using ending = new AsyncDisposableStack();
    const made = await parts(lab, ending);
    const match = { verb: "create", resource: "events" } as const;
    lab.api.faults.add({ match, effect: "hang", times: Number.POSITIVE_INFINITY });
    tell(made);
    await eventually("some are under way", () => lab.api.requests.count(match) > 0);
    await ending.disposeAsync();
    expect(lab.api.list(kinds.Event)).toEqual([]);
  });
});
