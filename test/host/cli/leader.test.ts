import { afterAll, expect, test } from "bun:test";

import { leaderFlags } from "../../../host/cli/leader.ts";
import { rejection } from "../../kit/rejection.ts";

let flags: Readonly<Record<string, unknown>> = {};
let accepted = "";
const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch(request) {
    accepted = request.headers.get("accept") ?? "";
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

test("a leader without such a page, or with another one, is named by its URL", async () => {
  flags = { gone: "" };
  expect(await rejection(leaderFlags(leader, []))).toContain(`--leader-url=${leader.url}: /flagz answers with 404`);
  flags = { "cluster-name": { a: 1 } };
  expect(await rejection(leaderFlags(leader, []))).toContain(`--leader-url=${leader.url}: `);
});
