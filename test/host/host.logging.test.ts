import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { writeFile } from "node:fs/promises";

import { kinds } from "cloud-controller-host/sdk";

import { joinNodes } from "../kit/azure.ts";
import type { HostProcess } from "../kit/host-process.ts";
import { hostUser } from "../kit/host-roles.ts";
import { SandboxLab } from "./sandbox-lab.ts";

setDefaultTimeout(120_000);

const running = (host: HostProcess): Promise<unknown> => host.until("it runs", ({ running: runs }) => runs);

/** klog's head: severity, date, time, process and source. */
const klogLine = /^[IWE]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ \S+\] "/;

describe("the log of a running host", () => {
  test("is klog's text on stderr, quiet at -v=0", async () => {
    await using lab = await SandboxLab.open();
    const host = lab.start();
    await running(host);
    expect(await host.stop()).toBe(0);
    const lines = host.stderr.trimEnd().split("\n");
    expect(lines.filter((line) => !klogLine.test(line))).toEqual([]);
    expect(host.stdout).toBe("");
    expect(host.lines("FLAG: ")).toEqual([]);
    expect(host.lines('"HTTP"')).toEqual([]);
  });

  test("tells every flag at -v=1 and every request at -v=3", async () => {
    await using lab = await SandboxLab.open();
    const host = lab.start({ flags: ["-v=3"] });
    await running(host);
    await host.get("/configz?x=1");
    expect(host.lines('FLAG: --leader-elect-lease-duration=\\"15s\\"')).toHaveLength(1);
    await host.eventually("the request is logged", () => host.lines('URI="/configz?x=1"').length === 1);
    expect(host.lines('URI="/configz?x=1"')[0]).toMatch(/"HTTP" verb="GET" .* srcIP="127.0.0.1:\d+" resp=200$/);
  });

  test("is raised by --vmodule for the sources that it names, and for no others", async () => {
    await using lab = await SandboxLab.open();
    await joinNodes(lab.admin, lab.azure, 1);
    const host = lab.start({ flags: ["--vmodule=cloud-node-*=10,nonesuch=10"] });
    await running(host);
    const whisper = "Updated node addresses";
    await host.eventually("the controller whispers", () => host.lines(whisper).length > 0);
    expect(host.lines(whisper)[0]).toContain(" cloud-node-controller] ");
    expect(host.lines('"HTTP"')).toEqual([]);
    expect(host.lines("FLAG: ")).toEqual([]);
  });

  test("is raised and lowered while it runs", async () => {
    await using lab = await SandboxLab.open();
    const host = lab.start();
    await running(host);
    const set = async (level: string): Promise<string> =>
      (await host.get("/debug/flags/v", { method: "PUT", body: level })).text();
    expect(await set("3")).toBe("successfully set klog.logging.verbosity to 3\n");
    await host.get("/configz?loud");
    await host.eventually("requests are logged", () => host.lines('URI="/configz?loud"').length === 1);
    await set("0");
    const [before] = [host.lines('"HTTP"').length];
    await host.get("/configz?quiet");
    await host.get("/debug/flags/v", { method: "PUT", body: "1" });
    expect(host.lines('"HTTP"')).toHaveLength(before);
  });

  test.each(["--log-format=json", "--logging-format=json"])(
    "is one JSON object per line on stdout with %s",
    async (flag) => {
      await using lab = await SandboxLab.open();
      await joinNodes(lab.admin, lab.azure, 1);
      const host = lab.start({ flags: [flag, "-v=4"] });
      await running(host);
      await host.eventually("an event about the node is logged", () => host.stdout.includes("Node synced"));
      expect(await host.stop()).toBe(0);
      expect(host.stderr).toBe("");
      const entries: readonly Record<string, unknown>[] = host.stdout
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line));
      for (const { level, ts, logger, msg, v } of entries) {
        expect(["info", "warn", "error"]).toContain(String(level));
        expect([typeof ts, typeof logger, typeof msg]).toEqual(["number", "string", "string"]);
        if (level === "info") expect(v).toBeNumber();
      }
      const own = entries.filter(({ logger }) => logger === "cloud-node-controller");
      expect(own.length).toBeGreaterThan(0);
      for (const entry of own) expect(entry["generation"]).toBe(1);
    },
  );

  test("is refused in words that name the flag where a form is unknown", async () => {
    await using lab = await SandboxLab.open();
    const host = lab.start({ flags: ["--log-format=xml"] });
    expect(await host.ended()).toBe(1);
    expect(host.stderr).toContain('Error: --log-format must be text or json, got "xml"');
  });
});

describe("a secret", () => {
  test.each(["text", "json"])(
    "a secret of the cloud config or the kubeconfig is in no log (%s, -v=10), page, metric or event",
    async (form) => {
      await using lab = await SandboxLab.open();
      const { config, configText } = lab.azure;
      const [, secret = ""] = /aadClientSecret: "(.+)"/.exec(configText) ?? [];
      expect(secret.length).toBeGreaterThan(20);
      await joinNodes(lab.admin, lab.azure, 2);
      const host = lab.start({ flags: ["-v=10", `--log-format=${form}`, "--enable-dynamic-reloading"] });
      await running(host);

      // Refusals are logged, without secrets.
      const bad = [
        configText.replace(/aadClientSecret: .+/, `aadClientSecret: ["${secret}"]`),
        configText.replace(/aadClientSecret: .+/, `aadClientSecret: "${secret}`),
        `aadClientSecret ${secret}`,
        `${configText}aadClientSecrett: "${secret}"\nvmType: "nonesuch"\n`,
      ];
      for (const text of bad) {
        await writeFile(config, text);
        const previous = (await host.status()).lastRefusal?.at;
        await host.until(
          "it is refused",
          ({ lastRefusal }) => lastRefusal !== undefined && lastRefusal.at !== previous,
        );
      }
      await writeFile(config, `${configText}# good again\n`);
      await host.until("it is taken", ({ generation, lastRefusal }) => generation > 1 && lastRefusal === undefined);

      const paths = [
        "/configz",
        "/flagz",
        "/statusz",
        "/metrics",
        "/metrics/slis",
        "/healthz?verbose",
        "/debug/pprof/heap",
      ];
      const pages = await Promise.all(paths.map(async (path) => (await host.get(path)).text()));
      expect(await host.stop()).toBe(0);
      const events = JSON.stringify(lab.api.list(kinds.Event));
      expect(events).toContain("ReloadRefused");
      const token = lab.api.tokens.of(hostUser);
      for (const [index, text] of [host.stdout, host.stderr, events, ...pages].entries())
        for (const hidden of [secret, token]) expect([index, text.includes(hidden)]).toEqual([index, false]);
    },
  );
});
