import { expect, setDefaultTimeout, test } from "bun:test";
import { once } from "node:events";
import { type ClientHttp2Session, connect } from "node:http2";

import { kinds } from "cloud-controller-host/sdk";

import { freePort } from "../../envtest/free-port.ts";
import { SandboxLab } from "../sandbox-lab.ts";

setDefaultTimeout(120_000);

const lease = { namespace: "kube-system", name: "cloud-controller-manager" };

async function statusOver(session: ClientHttp2Session): Promise<{ generation: number; leading: boolean }> {
  const stream = session.request({ ":path": "/statusz" });
  let text = "";
  stream.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
  await once(stream, "end");
  return JSON.parse(text);
}

test("serves before leader election, and keeps a connection through take-over and reloads", async () => {
  await using lab = await SandboxLab.open();
  const now = new Date().toISOString().replace("Z", "000Z");
  lab.api.create(kinds.Lease, {
    metadata: lease,
    spec: { holderIdentity: "another-replica", leaseDurationSeconds: 3600, acquireTime: now, renewTime: now },
  });
  const port = freePort();
  // Clients that are not known would otherwise lose their connection with each reply.
  const flags = ["--enable-dynamic-reloading", "--feature-gates=UnauthenticatedHTTP2DOSMitigation=false"];
  const host = lab.start({ flags, port });
  const standby = await host.until("it stands by", ({ generation, leader }) => generation === 1 && leader !== "");
  expect(standby).toMatchObject({ leading: false, leader: "another-replica", running: false });
  for (const path of ["/healthz", "/livez", "/readyz"]) {
    expect((await host.get(path)).status).toBe(200);
    expect(await (await host.get(`${path}/leaderElection`)).text()).toBe("ok");
  }

  const session = connect(`https://127.0.0.1:${port}`, { rejectUnauthorized: false });
  try {
    expect(await statusOver(session)).toMatchObject({ generation: 1, leading: false });
    lab.api.update(kinds.Lease, lease, (held) => ({
      ...held,
      spec: { ...held.spec, holderIdentity: "", leaseDurationSeconds: 1 },
    }));
    await host.until("it leads", ({ running }) => running);
    for (const generation of [2, 3, 4]) {
      await lab.changeConfig();
      await host.until("the next one runs", (status) => status.generation === generation && status.running);
      expect(await statusOver(session)).toMatchObject({ generation, leading: true });
    }
    expect(session.closed).toBeFalse();
  } finally {
    session.destroy();
  }
});
