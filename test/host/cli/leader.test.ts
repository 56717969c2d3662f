import { afterAll, expect, test } from "bun:test";
import { realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { leaderFlags } from "../../../host/cli/leader.ts";
import { parse } from "../../../host/config/parse/parse.ts";
import { rejection } from "../../kit/rejection.ts";

let flags: Readonly<Record<string, unknown>> = {};
let accepted = "";
let authorization = "";
let endless = false;
let sent = 0;
/** Spaces, which JSON allows everywhere, for as long as they are read. */
const spaces = (): ReadableStream<Uint8Array> =>
  new ReadableStream({
    pull(controller) {
      sent += 1024 * 1024;
      controller.enqueue(new Uint8Array(1024 * 1024).fill(32));
    },
  });
const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch(request) {
    if (endless) return new Response(spaces());
    accepted = request.headers.get("accept") ?? "";
    authorization = request.headers.get("authorization") ?? "";
    if (Object.hasOwn(flags, "refused")) return new Response("", { status: 403 });
    return Object.hasOwn(flags, "gone") ? new Response("", { status: 404 }) : Response.json({ kind: "Flagz", flags });
  },
});
afterAll(() => server.stop(true));
const leader = { url: server.url.origin, tokenFile: undefined };

test("the leader's flags are those that decide what it does, differ from the defaults and are not given", async () => {
  flags = {
    controllers: "[*,-node-route-controller]",
    "cluster-name": "prod",
    "cluster-cidr": "10.0.0.0/8",
    "allocate-node-cidrs": "false",
    kubeconfig: "/etc/kubeconfig",
    "plugin-dir": "/tmp/plugins",
    help: "true",
    version: "true",
    "of-another-version": "1",
  };
  expect(await leaderFlags(leader, ["--cluster_cidr=10.1.0.0/16", "--controllers", "*"])).toEqual([
    "--cluster-name=prod",
  ]);
  expect(await leaderFlags(leader, [])).toEqual([
    "--cluster-cidr=10.0.0.0/8",
    "--cluster-name=prod",
    "--controllers=*,-node-route-controller",
  ]);
  expect(accepted).toBe("application/json;g=config.k8s.io;v=v1beta1;as=flagz");
});

test("a local port is asked directly, whatever proxy the environment names", async () => {
  flags = { "cluster-name": "prod" };
  const former = process.env["HTTP_PROXY"];
  process.env["HTTP_PROXY"] = "http://127.0.0.1:1";
  try {
    expect(await leaderFlags(leader, [])).toEqual(["--cluster-name=prod"]);
  } finally {
    if (former === undefined) delete process.env["HTTP_PROXY"];
    else process.env["HTTP_PROXY"] = former;
  }
});

test("a leader sets only flags that decide what happens to an object", async () => {
  const all = parse([]);
  flags = Object.fromEntries((all.kind === "run" ? all.settings : []).map(({ name }) => [name, "set"]));
  expect((await leaderFlags(leader, [])).map((flag) => flag.replace("=set", "").slice(2))).toEqual([
    "allocate-node-cidrs",
    "allow-untagged-cloud",
    "cidr-allocator-type",
    "cloud-provider",
    "cluster-cidr",
    "cluster-name",
    "concurrent-node-status-updates",
    "concurrent-node-syncs",
    "concurrent-service-syncs",
    "configure-cloud-routes",
    "controller-start-interval",
    "controllers",
    "emulated-version",
    "external-cloud-volume-plugin",
    "feature-gates",
    "load-balancer-class",
    "min-resync-period",
    "node-cidr-mask-size",
    "node-cidr-mask-size-ipv4",
    "node-cidr-mask-size-ipv6",
    "node-filter-requirements",
    "node-monitor-period",
    "node-status-update-frequency",
    "node-sync-period",
    "route-reconciliation-period",
    "service-cluster-ip-range",
    "service-selector",
    "shard",
  ]);
});

test("a reply without an end is not read to its end", async () => {
  endless = true;
  try {
    expect(await rejection(leaderFlags(leader, []))).toContain("its reply is larger than 33554432 bytes");
  } finally {
    endless = false;
  }
  expect(sent).toBeLessThan(64 * 1024 * 1024);
});

test("a leader without such a page, or with another one, is named by its URL", async () => {
  flags = { gone: "" };
  expect(await rejection(leaderFlags(leader, []))).toContain(`--leader-url=${leader.url}: /flagz returned 404`);
  flags = { "cluster-name": { a: 1 } };
  expect(await rejection(leaderFlags(leader, []))).toContain(`--leader-url=${leader.url}: `);
});

test("a URL that is not that of a secure port is refused", async () => {
  for (const url of ["foo", "127.0.0.1:10258", "file:///etc/passwd"])
    expect(await rejection(leaderFlags({ url, tokenFile: undefined }, []))).toBe(
      `--leader-url=${url}: must be the URL of a secure port, such as https://127.0.0.1:10258`,
    );
});

test("a leader that refuses a request is reported with the option that names a token", async () => {
  flags = { refused: "" };
  expect(await rejection(leaderFlags(leader, []))).toEndWith(
    "/flagz returned 403; name a token that may read this path: --leader-token-file",
  );
});

test("a token is sent over http to this machine, and to no other", async () => {
  const tokenFile = join(await realpath(tmpdir()), `leader-token-${process.pid}`);
  await writeFile(tokenFile, "secret");
  try {
    flags = { "cluster-name": "prod" };
    expect(await leaderFlags({ url: leader.url, tokenFile }, [])).toEqual(["--cluster-name=prod"]);
    expect(authorization).toBe("Bearer secret");
    // The name is not resolved before the refusal.
    const url = "http://leader.invalid:10258";
    expect(await rejection(leaderFlags({ url, tokenFile }, []))).toBe(
      `--leader-url=${url}: the token of --leader-token-file is sent over https only`,
    );
  } finally {
    await rm(tokenFile);
  }
});
