import { describe, expect, setDefaultTimeout, test } from "bun:test";

import { joinNodes } from "../kit/azure.ts";
import { shortLease } from "../kit/host-under-test.ts";
import { SandboxLab } from "./sandbox-lab.ts";

setDefaultTimeout(120_000);

describe("the endpoints under /debug/", () => {
  test("requires authorization by the API server, path by path", async () => {
    await using lab = await SandboxLab.open({ allows: ({ path }) => path !== "/debug/pprof/heap" });
    const host = lab.start({ flags: ["--authorization-always-allow-paths=/healthz,/statusz"] });
    await host.until("it runs", ({ running }) => running);
    const token = lab.api.tokens.issueFor("default", "ann", "1", Date.now() + 600_000);
    const headers = { Authorization: `Bearer ${token}` };
    expect((await host.get("/debug/pprof/", { headers })).status).toBe(200);
    const denied = await host.get("/debug/pprof/heap", { headers });
    expect(denied.status).toBe(403);
    expect(await denied.text()).toContain(
      String.raw`User \"system:serviceaccount:default:ann\" cannot get path \"/debug/pprof/heap\"`,
    );
    expect(lab.api.requests.count({ resource: "subjectaccessreviews" })).toBe(2);
  });

  test("has an index and a page for flags", async () => {
    await using lab = await SandboxLab.open();
    const host = lab.start();
    await host.until("it runs", ({ running }) => running);
    const plain = await host.get("/debug/pprof", { redirect: "manual" });
    expect([plain.status, plain.headers.get("location")]).toEqual([302, "/debug/pprof/"]);
    expect(await (await host.get("/debug/pprof")).text()).toContain("\n  profile: ");
    for (const path of ["/debug/flags", "/debug/flags/"])
      expect(await (await host.get(path)).text()).toContain("\n  v: ");
  });

  test("is absent with --profiling=false", async () => {
    await using lab = await SandboxLab.open();
    const host = lab.start({ flags: ["--profiling=false", "--contention-profiling"] });
    await host.until("it runs", ({ running }) => running);
    for (const path of ["/debug/pprof", "/debug/pprof/", "/debug/pprof/heap", "/debug/flags", "/debug/flags/v"])
      expect((await host.get(path)).status).toBe(404);
    expect(
      host.lines("--contention-profiling is accepted without effect: the runtime has no lock contention profile"),
    ).toHaveLength(1);
  });

  test("does not stop the host: it answers, renews its lease and initializes nodes while profiles are taken", async () => {
    await using lab = await SandboxLab.open();
    const host = lab.start({ flags: shortLease });
    await host.until("it runs", ({ running }) => running);
    const renewed = lab.lease()?.renewTime;
    const profile = host.get("/debug/pprof/profile?seconds=4");
    const heap = host.get("/debug/pprof/heap");
    const [name = ""] = await joinNodes(lab.admin, lab.azure, 1);
    await host.eventually(
      "the node is initialized",
      () => host.lines(`Successfully initialized node with cloud provider" generation=1 node="${name}"`).length === 1,
    );
    await host.eventually("the lease is renewed", () => lab.lease()?.renewTime !== renewed);
    expect((await host.get("/healthz")).status).toBe(200);
    expect([(await profile).status, (await heap).status]).toEqual([200, 200]);
    expect(lab.lease()?.leaseTransitions).toBe(0);
  });
});

describe("/flagz and /statusz", () => {
  test("have the form of Kubernetes components if the Accept header asks for it, and the host's own otherwise", async () => {
    await using lab = await SandboxLab.open();
    const host = lab.start({ flags: ["--leader-elect=false", "--cluster-name=blue"] });
    await host.until("it runs", ({ running }) => running);
    const get = (path: string, accept: string) => host.get(path, { headers: { accept } });
    const structured = (kind: string): string => `application/json;v=v1beta1;g=config.k8s.io;as=${kind}`;
    expect(await (await get("/statusz", structured("Statusz"))).json()).toMatchObject({
      kind: "Statusz",
      metadata: { name: "cloud-controller-host" },
      startTime: (await host.status()).startedAt.replace(/\.\d+Z$/u, "Z"),
      binaryVersion: expect.stringMatching(/^v\d/u),
    });
    expect(await (await get("/flagz", structured("Flagz"))).json()).toMatchObject({
      kind: "Flagz",
      flags: { "cluster-name": "blue" },
    });
    expect(await (await get("/statusz", "text/plain")).text()).toContain("\ncloud-controller-host statusz\nWarning: ");
    expect(await (await get("/statusz", "application/json")).json()).toMatchObject({ generation: 1 });
    expect((await get("/flagz", "image/png")).status).toBe(406);
  });

  test("are served by default, and not if their feature gates are off", async () => {
    await using lab = await SandboxLab.open();
    const status = async (path: string, ...flags: readonly string[]): Promise<number> => {
      const host = lab.start({ flags: ["--leader-elect=false", ...flags] });
      await host.eventually("it serves", async () => (await host.get("/healthz")).status === 200);
      const response = await host.get(path);
      expect(await host.stop()).toBe(0);
      return response.status;
    };
    expect(await status("/flagz")).toBe(200);
    expect(await status("/flagz", "--feature-gates=ComponentFlagz=false")).toBe(404);
    expect(await status("/statusz", "--feature-gates=AllBeta=false")).toBe(404);
    expect(await status("/statusz", "--feature-gates=AllBeta=false,ComponentStatusz=true")).toBe(200);
  });
});
