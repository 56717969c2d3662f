import { expect, setDefaultTimeout, test } from "bun:test";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { HostLab, steadyLease, steadyRenewDeadlineMs } from "../kit/host-under-test.ts";
import { describeOnSandbox } from "../kit/platform.ts";

setDefaultTimeout(120_000);

/** More than the 256 requests of `fetch` that Bun keeps in flight per process, the host's own watches included. */
const hanging = 300;
const maxOfTheLimit = 200;

const controller = (url: string): string => `
  import { defineController } from "cloud-controller-host/sdk";
  export default defineController({
    name: "odd-controller",
    construct: () => () => ({
      run: (signal) => Promise.all(Array.from({ length: ${hanging} }, () => fetch("${url}", { signal }).catch(() => {}))),
    }),
  });`;

describeOnSandbox("a controller with 300 hanging requests", (platform) => {
  const lab = new HostLab(platform);

  test("does not cost the host its lease", async () => {
    let open = 0;
    const server = lab.use(hangingServer(() => (open += 1)));
    const { folder } = await lab.azure();
    await mkdir(join(folder, "plugins", "odd"), { recursive: true });
    await writeFile(join(folder, "plugins", "odd", "plugin.ts"), controller(server.url));
    const flags = [`--plugin-dir=${join(folder, "plugins")}`, "--controllers=odd-controller", ...steadyLease];
    const host = await lab.start({ flags });
    await host.eventually("the requests hang", () => open > maxOfTheLimit);
    const ended = await Promise.race([host.ended(), Bun.sleep(steadyRenewDeadlineMs + 2_000)]);
    expect(ended).toBeUndefined();
    // The limit is real: the rest of the requests wait within the process.
    expect(open).toBeLessThan(hanging);
    expect((await host.status()).leading).toBe(true);
    expect(host.lines("Failed to renew lease")).toEqual([]);
  });
});

function hangingServer(onRequest: () => void): AsyncDisposable & { readonly url: string } {
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 0,
    fetch() {
      onRequest();
      return new Promise<Response>(() => undefined);
    },
  });
  return { url: server.url.href, [Symbol.asyncDispose]: () => server.stop(true) };
}
