import { expect, setDefaultTimeout, test } from "bun:test";
import { readFile } from "node:fs/promises";

import { eventually } from "cloud-controller-host/sdk/testing";

import { freePort } from "../envtest/free-port.ts";
import { SandboxLab } from "../host/sandbox-lab.ts";

setDefaultTimeout(120_000);

const profiles = ["heap?debug=1", "heap", "profile?seconds=1", "profile?seconds=1&format=cpuprofile"];
const pages = ["/configz", "/flagz", "/statusz", "/metrics", "/healthz?verbose", "/readyz?verbose"];

test("neither the pages of a host nor its profiles nor its log at -v=10 contain a secret of its config, its kubeconfig or its clients", async () => {
  await using lab = await SandboxLab.open();
  const secret = /^aadClientSecret: (\S+)$/m.exec(lab.azure.configText)?.[1] ?? "";
  const port = freePort();
  const { host, log } = await lab.host([
    `--secure-port=${port}`,
    "--authorization-always-allow-paths=/*",
    "--profiling",
    "--v=10",
  ]);
  await eventually("it leads", () => host.status.leading && host.status.generation > 0, 40_000);
  const kubeconfig = /token: (\S+)/.exec(await readFile(lab.kubeconfig, "utf8"))?.[1] ?? "";
  const client = `canary-${crypto.randomUUID()}`;
  const secrets = [secret, kubeconfig, client];
  for (const one of secrets) expect(one.length).toBeGreaterThan(8);
  for (const path of pages) {
    const url = `https://127.0.0.1:${port}${path}`;
    const tls = { rejectUnauthorized: false };
    const anonymous = await fetch(url, { tls });
    expect([path, anonymous.status]).toEqual([path, 200]);
    const refused = await fetch(url, {
      tls,
      headers: { authorization: `Bearer ${client}`, cookie: client, "x-a": client },
    });
    expect([path, refused.status]).toEqual([path, 401]);
    const served = `${await anonymous.text()}${await refused.text()}`;
    for (const one of secrets) expect(served).not.toContain(one);
  }
  // A leader refuses to walk a large heap; this one may hold the garbage of the tests before.
  Bun.gc(true);
  for (const profile of profiles) {
    const url = `https://127.0.0.1:${port}/debug/pprof/${profile}`;
    const tls = { rejectUnauthorized: false };
    const ended = new AbortController();
    const taking = fetch(url, { tls }).finally(() => ended.abort());
    // A CPU profile shows what runs meanwhile, for as long as it is taken.
    while (!ended.signal.aborted)
      await fetch(`https://127.0.0.1:${port}/metrics`, { tls, headers: { authorization: `Bearer ${client}` } });
    const taken = await taking;
    // In a worker with much of other tests in its heap; profiling.test.ts takes one whatever its size.
    if (profile === "heap" && taken.status === 503) {
      expect(await taken.text()).toContain("the heap is too large for a snapshot");
      continue;
    }
    expect([profile, taken.status]).toEqual([profile, 200]);
    const bytes = Buffer.from(await taken.arrayBuffer());
    const read = bytes[0] === 0x1f ? Buffer.from(Bun.gunzipSync(bytes)) : bytes;
    expect(read.length).toBeGreaterThan(500);
    for (const one of secrets) expect([profile, read.includes(one)]).toEqual([profile, false]);
  }
  expect(log.length).toBeGreaterThan(20);
  for (const one of secrets) expect(log.join("")).not.toContain(one);
});
