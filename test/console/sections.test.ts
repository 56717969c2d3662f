import { expect, setDefaultTimeout, test } from "bun:test";

import { eventually } from "cloud-controller-host/sdk/testing";

import { freePort } from "../envtest/free-port.ts";
import { SandboxLab } from "../host/sandbox-lab.ts";

setDefaultTimeout(240_000);

const plugin = (name: string, status: string): string => `
import { defineController } from "cloud-controller-host/sdk";
export default defineController({
  name: "${name}",
  permissions: [],
  construct: () => () => ({
    run: (signal) => new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true })),
    status: () => ${status},
  }),
});
`;

test("a third-party controller adds sections to the console, and whatever else it returns or throws stays text", async () => {
  await using lab = await SandboxLab.open();
  const flag = await lab.plugin(
    "greeter",
    plugin("greeter", '[{ title: "<b>greetings</b>", facts: [{ name: "sent", value: "3" }] }]'),
  );
  await lab.plugin("markup", plugin("markup", '"<script>alert(1)</script>"'));
  await lab.plugin("thrower", plugin("thrower", '(() => { throw new Error("no status today"); })()'));
  const names = "greeter,markup,thrower";
  const { host } = await lab.host([flag, `--controllers=${names}`, `--secure-port=${freePort()}`]);
  await eventually("they run", () => host.status.running, 20_000);
  const reply = await fetch(`${host.url}/ui/api/controllers`, {
    headers: { Authorization: `Bearer ${lab.api.tokens.of("admin")}` },
    tls: { rejectUnauthorized: false },
  });
  const { controllers, sections } = JSON.parse(await reply.text());
  expect(controllers.map(({ name, state }: { name: string; state: string }) => `${name} ${state}`)).toEqual(
    expect.arrayContaining(["greeter running", "markup running", "thrower running"]),
  );
  expect(
    sections.toSorted((one: { name: string }, other: { name: string }) => (one.name < other.name ? -1 : 1)),
  ).toEqual([
    { name: "greeter", sections: [{ title: "<b>greetings</b>", facts: [{ name: "sent", value: "3" }] }] },
    { name: "markup", sections: [{ title: "its status() does not return sections" }] },
    { name: "thrower", sections: [{ title: "its status() failed: no status today" }] },
  ]);
});
