import { expect, setDefaultTimeout, test } from "bun:test";
import { readFile } from "node:fs/promises";

import { freePort } from "../envtest/free-port.ts";
import { SandboxLab } from "../host/sandbox-lab.ts";

setDefaultTimeout(120_000);

const profiles = ["heap?debug=1", "heap", "profile?seconds=1", "profile?seconds=1&format=cpuprofile"];
const pages = ["/configz", "/flagz", "/statusz", "/metrics", "/healthz?verbose", "/readyz?verbose"];

test("neither the pages of a host nor its profiles nor its log at -v=10 contain a secret of its config, its kubeconfig or its clients", async () => {
  await using lab = await SandboxLab.open();
  const secret = /^aadClientSecret: (\S+)$/m.exec(lab.azure.configText)?.[1] ?? "";
  const port = freePort();
  // In a process of its own: a leader refuses to walk a large heap, as one that holds other tests.
  const host = lab.start({ port, flags: ["--profiling", "--v=10"] });
  await host.until("it leads", ({ leading, generation }) => leading && generation > 0);
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
  for (const profile of profiles) {
    const url = `https://127.0.0.1:${port}/debug/pprof/${profile}`;
    const tls = { rejectUnauthorized: false };
    const ended = new AbortController();
    const taking = fetch(url, { tls }).finally(() => ended.abort());
    // A CPU profile shows what runs meanwhile, for as long as it is taken.
    while (!ended.signal.aborted)
      await fetch(`https://127.0.0.1:${port}/metrics`, { tls, headers: { authorization: `Bearer ${client}` } });
    const taken = await taking;
    expect([profile, taken.status]).toEqual([profile, 200]);
    const bytes = Buffer.from(await taken.arrayBuffer());
    const read = bytes[0] === 0x1f ? Buffer.from(Bun.gunzipSync(bytes)) : bytes;
    expect(read.length).toBeGreaterThan(500);
    for (const one of secrets) expect([profile, read.includes(one)]).toEqual([profile, false]);
  }
  expect(host.lines("").length).toBeGreaterThan(20);
  for (const one of secrets) expect(host.stdout + host.stderr).not.toContain(one);
});
