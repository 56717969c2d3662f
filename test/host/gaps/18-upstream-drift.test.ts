import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { connect } from "node:tls";

import { freePort } from "../../envtest/free-port.ts";
import { SandboxLab } from "../sandbox-lab.ts";

setDefaultTimeout(120_000);

describe("later additions of upstream", () => {
  test("sets up logging before flags are logged, so that they have its format", async () => {
    await using lab = await SandboxLab.open();
    const host = lab.start({ flags: ["--logging-format=json", "-v=1"] });
    await host.until("it runs", ({ running }) => running);
    const [first = ""] = host.stdout.split("\n");
    expect(JSON.parse(first)).toMatchObject({ level: "info", v: 1 });
    expect(host.stdout).toContain(String.raw`FLAG: --logging-format=\"json\"`);
    expect(host.stderr).toBe("");
  });

  test("runs as many node status workers as node workers, unless set", async () => {
    await using lab = await SandboxLab.open();
    const workers = async (syncs: number, updates: number, ...flags: readonly string[]): Promise<void> => {
      const host = lab.start({ flags: ["--leader-elect=false", ...flags] });
      await host.until("it runs", ({ running }) => running);
      expect(await (await host.get("/configz")).json()).toMatchObject({
        "cloudcontrollermanager.config.k8s.io": {
          NodeController: { ConcurrentNodeSyncs: syncs, ConcurrentNodeStatusUpdates: updates },
        },
      });
      expect(await host.stop()).toBe(0);
    };
    await workers(4, 4, "--concurrent-node-syncs=4");
    await workers(4, 2, "--concurrent-node-syncs=4", "--concurrent-node-status-updates=2");
  });

  test("--tls-curve-preferences and --tls-min-version apply to every client", async () => {
    await using lab = await SandboxLab.open();
    const port = freePort();
    const host = lab.start({ port, flags: ["--tls-curve-preferences=24", "--tls-min-version=VersionTLS13"] });
    await host.until("it runs", ({ running }) => running);
    const handshake = (options: { ecdhCurve?: string; maxVersion?: "TLSv1.2" }): Promise<string> =>
      new Promise((resolve) => {
        const socket = connect({ host: "127.0.0.1", port, rejectUnauthorized: false, ...options });
        socket.once("secureConnect", () => resolve(socket.getProtocol() ?? ""));
        socket.once("error", () => resolve("refused"));
        socket.once("close", () => resolve("refused"));
      });
    expect(await handshake({ ecdhCurve: "P-384" })).toBe("TLSv1.3");
    expect(await handshake({ ecdhCurve: "P-256" })).toBe("refused");
    expect(await handshake({ maxVersion: "TLSv1.2" })).toBe("refused");
  });
});
