import { expect, setDefaultTimeout, test } from "bun:test";

import { messageOf } from "cloud-controller-host/sdk";

import { prepareHost } from "../../../host/sandbox-host.ts";
import type { PrepareHost } from "../../../host/sandbox/launcher.ts";
import { openSandbox, type Sandbox } from "../../../host/sandbox/open.ts";

setDefaultTimeout(120_000);

/** Another process listens on ports of the first hosts, between their reservation and their start. */
async function openWithTakenPorts(times: number, ...flags: readonly string[]) {
  using taken = new DisposableStack();
  const prepared: (readonly string[])[] = [];
  const prepare: PrepareHost = async (argv, environment) => {
    const host = await prepareHost(argv, environment);
    const attempt = prepared.push(argv);
    const port = Number(/--secure-port=(\d+)/u.exec(argv.join())?.[1]);
    return {
      ...host,
      start(hooks) {
        if (attempt <= times) taken.use(Bun.listen({ hostname: "127.0.0.1", port, socket: { data: () => undefined } }));
        return host.start(hooks);
      },
    };
  };
  const opened = await openSandbox(prepare, { nodes: 0, flags: ["--controllers=cloud-node", ...flags] }).then(
    async (sandbox: Sandbox) => {
      await using _ = sandbox;
      const reply = await fetch(`${sandbox.host.url}/livez`, { tls: { rejectUnauthorized: false } });
      return reply.status;
    },
    messageOf,
  );
  return { opened, starts: prepared.length };
}

test("a host whose port another process took before it listened starts on other ports", async () => {
  expect(await openWithTakenPorts(2)).toEqual({ opened: 200, starts: 3 });
});

test("a host on a port of the user's that another process has does not start", async () => {
  using taken = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: () => undefined } });
  expect(await openWithTakenPorts(0, `--secure-port=${taken.port}`)).toEqual({
    opened: expect.stringContaining(`--secure-port: 127.0.0.1:${taken.port} is already in use by another process`),
    starts: 1,
  });
});
