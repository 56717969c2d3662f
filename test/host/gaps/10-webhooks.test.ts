import { expect, setDefaultTimeout, test } from "bun:test";

import { SandboxLab } from "../sandbox-lab.ts";

setDefaultTimeout(60_000);

const refused: readonly (readonly [what: string, flags: readonly string[]])[] = [
  ["by name", ["--webhooks=node-hook"]],
  ["all", ["--webhooks=*"]],
  ["with a port of 0, at which upstream panics", ["--webhooks=*", "--webhook-secure-port=0"]],
  ["with its feature gate", ["--webhooks=*", "--feature-gates=CloudControllerManagerWebhook=true"]],
];

test.each(refused)(
  "enabling webhooks %s is refused in one line that says why, and nothing is served",
  async (_, flags) => {
    await using lab = await SandboxLab.open();
    const host = lab.start({ flags });
    expect(await host.ended()).toBe(1);
    expect(host.stderr).toMatch(/^Error: .*--webhooks\b.+\n/);
    expect(host.stderr.split("\n").filter((line) => line.startsWith("Error:"))).toHaveLength(1);
    expect(lab.api.requests.count()).toBe(0);
  },
);

test("accepts webhook flags that enable nothing, as manifests set them", async () => {
  await using lab = await SandboxLab.open();
  const host = lab.start({
    flags: [
      "--webhook-secure-port=10260",
      "--webhook-bind-address=127.0.0.1",
      "--webhooks=",
      "--webhook-cert-dir=/nowhere",
    ],
  });
  await host.until("it runs", ({ running }) => running);
  expect(await host.stop()).toBe(0);
});
