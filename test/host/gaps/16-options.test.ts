import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import { isUninitialized, kinds } from "cloud-controller-host/sdk";

import { SandboxApiServer } from "../../../sdk/testing/api-server/index.ts";
import { joinNodes } from "../../kit/azure.ts";
import { SandboxLab } from "../sandbox-lab.ts";

setDefaultTimeout(120_000);

describe("the options are the union of both Go binaries'", () => {
  test("initialize nodes and keep their addresses without any flag for workers", async () => {
    await using lab = await SandboxLab.open();
    const [name = ""] = await joinNodes(lab.admin, lab.azure, 1);
    const host = lab.start();
    await host.eventually("the node is initialized", () => {
      const node = lab.api.get(kinds.Node, { name });
      return node !== undefined && !isUninitialized(node) && (node.status?.addresses?.length ?? 0) > 1;
    });
    expect(await (await host.get("/configz")).json()).toMatchObject({
      "cloudcontrollermanager.config.k8s.io": {
        NodeController: { ConcurrentNodeSyncs: 1, ConcurrentNodeStatusUpdates: 1 },
      },
    });
  });

  test.each(["--concurrent-node-syncs=0", "--concurrent-node-status-updates=-1", "--concurrent-service-syncs=0"])(
    "%s is refused by name",
    async (flag) => {
      await using lab = await SandboxLab.open();
      const host = lab.start({ flags: [flag] });
      expect(await host.ended()).toBe(1);
      expect(host.stderr).toStartWith(`Error: ${flag.split("=")[0]} `);
    },
  );
});

describe("the API server that authorizes requests", () => {
  const reviews = { resource: "subjectaccessreviews" } as const;
  const tokens = { resource: "tokenreviews" } as const;
  /** A token of a user outside every privileged group. */
  const tokenOf = (api: SandboxApiServer, name: string): string =>
    api.tokens.issueFor("default", name, name, Date.now() + 600_000);
  const isAnn = ({ username }: { readonly username: string }): boolean => username.endsWith(":ann");
  const strict = "--authorization-always-allow-paths=/healthz,/statusz";

  test("is that of --authentication-kubeconfig and --authorization-kubeconfig, if set", async () => {
    await using lab = await SandboxLab.open();
    await using authn = await SandboxApiServer.start();
    await using authz = await SandboxApiServer.start({ allows: isAnn });
    const file = async (name: string, api: SandboxApiServer): Promise<string> => {
      const path = join(lab.azure.folder, name);
      await writeFile(path, api.kubeconfig("reviewer"));
      return path;
    };
    const host = lab.start({
      flags: [
        strict,
        `--authentication-kubeconfig=${await file("authn", authn)}`,
        `--authorization-kubeconfig=${await file("authz", authz)}`,
      ],
    });
    await host.until("it runs", ({ running }) => running);
    const requested = async (token: string): Promise<number> =>
      (await host.get("/metrics", { headers: { Authorization: `Bearer ${token}` } })).status;
    expect(await requested(tokenOf(authn, "ann"))).toBe(200);
    expect(await requested(tokenOf(authn, "bob"))).toBe(403);
    expect(await requested(tokenOf(lab.api, "ann"))).toBe(401);
    expect([authn.requests.count(tokens), authz.requests.count(reviews)]).toEqual([3, 2]);
    expect([lab.api.requests.count(tokens), lab.api.requests.count(reviews)]).toEqual([0, 0]);
  });

  test("is otherwise that of --kubeconfig", async () => {
    await using lab = await SandboxLab.open({ allows: isAnn });
    const host = lab.start({ flags: [strict] });
    await host.until("it runs", ({ running }) => running);
    const headers = { Authorization: `Bearer ${tokenOf(lab.api, "ann")}` };
    expect((await host.get("/metrics", { headers })).status).toBe(200);
    expect((await host.get("/metrics")).status).toBe(403);
    expect([lab.api.requests.count(tokens), lab.api.requests.count(reviews)]).toEqual([1, 2]);
  });
});
