import { describe, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { cloudConformance, type CloudHarness } from "cloud-controller-host/sdk/testing";

import { FolderBackend } from "./backend.ts";
import { folderCloud } from "./cloud.ts";
import plugin from "./plugin.ts";

const harness: CloudHarness = {
  async open() {
    const directory = await mkdtemp(join(tmpdir(), "folder-cloud-"));
    const backend = new FolderBackend(directory);
    await backend.put("instances", "node0", { internalIP: "10.0.0.1" });
    backend.writes = 0;
    return {
      cloud: folderCloud(backend, { check: () => undefined }),
      clusterName: "kubernetes",
      node: { metadata: { name: "node0" } },
      ghost: { metadata: { name: "ghost" } },
      service: { metadata: { namespace: "default", name: "web", uid: "1" } },
      writes: () => backend.writes,
      delayAnswers: () => void (backend.delayMs = 60_000),
      [Symbol.asyncDispose]: () => rm(directory, { recursive: true, force: true }),
    };
  },
};

describe("cloud conformance", () => {
  for (const { name, run } of cloudConformance(harness)) test(name, run);
});

test("nothing is written once the fence is closed", async () => {
  const directory = await mkdtemp(join(tmpdir(), "folder-cloud-"));
  try {
    const backend = new FolderBackend(directory);
    const service = { metadata: { namespace: "default", name: "web", uid: "1" } };
    const route = { name: "r", targetNode: "node0", destinationCIDR: "10.244.0.0/24" };
    const check = (): void => {
      throw new Error("the lease is lost");
    };
    const { loadBalancers, routes } = folderCloud(backend, { check });
    const writes = [
      async () => loadBalancers?.ensureLoadBalancer("kubernetes", service, []),
      async () => loadBalancers?.ensureLoadBalancerDeleted("kubernetes", service),
      async () => routes?.createRoute("kubernetes", "", route),
      async () => routes?.deleteRoute("kubernetes", route),
    ];
    for (const write of writes) expect(await write().then(() => "written", String)).toContain("the lease is lost");
    expect(backend.writes).toBe(0);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});

test("the config needs a directory", () => {
  expect(plugin.bind({}, {})).toMatchObject({ ok: false, problems: [expect.stringContaining("directory")] });
});
