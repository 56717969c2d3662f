import { expect, test } from "bun:test";

import { shardProblem } from "../../../../host/config/flags/checks.ts";
import { defaultOptions, type Options } from "../../../../host/config/flags/options.ts";
import { optionsOfShard, shardName, shardProblems, sharesServices } from "../../../../host/config/validate/shard.ts";
import { hostPermissions } from "../../../../host/run/permissions.ts";

const given = (options: Partial<Options>): Options => ({ ...defaultOptions, ...options });
const ofA = (options: Partial<Options> = {}): Options => given({ shard: "a", serviceSelector: "shard=a", ...options });

test("a shard has a Lease of its own and the service controller alone for the asterisk", () => {
  expect(optionsOfShard(given({}))).toEqual(defaultOptions);
  const derived = optionsOfShard(ofA());
  expect([derived.leaderElectResourceName, derived.controllers]).toEqual([
    "cloud-controller-manager-a",
    ["service-lb-controller"],
  ]);
  expect(optionsOfShard(ofA({ controllers: ["*", "-node-ipam", "my-controller"] })).controllers).toEqual([
    "service-lb-controller",
    "-node-ipam",
    "my-controller",
  ]);
  expect(optionsOfShard(ofA({ controllers: ["*", "-service-lb-controller"] })).controllers).toEqual([
    "-service-lb-controller",
  ]);
  expect([shardName(ofA(), "events"), shardName(given({}), "events")]).toEqual(["events-a", "events"]);
});

test("a shard without Services, a lease, or with work of the whole cluster is refused, each with the reason", () => {
  expect(shardProblems(given({ leaderElect: false }))).toEqual([]);
  expect(shardProblems(ofA())).toEqual([]);
  expect(shardProblems(ofA({ serviceSelector: "", loadBalancerClass: "x" }))).toEqual([]);
  const problems = shardProblems(
    ofA({
      serviceSelector: " ",
      leaderElect: false,
      enableLeaderMigration: true,
      controllers: ["service-lb-controller", "cloud-node-controller", "node-ipam", "-node-route-controller"],
    }),
  );
  expect(problems).toEqual([
    "--shard requires --service-selector or --load-balancer-class: the Services that this shard serves",
    "--shard requires --leader-elect: other shards read from its Lease what it serves",
    "--shard excludes --enable-leader-migration: controllers migrate to the deployment without --shard",
    '--controllers: a shard cannot run "cloud-node-controller"; the deployment without --shard runs it',
    '--controllers: a shard cannot run "node-ipam"; the deployment without --shard runs it',
  ]);
});

test("names of shards fit into the names of Leases and load balancers, and none is that of an internal one", () => {
  for (const name of ["", "a", "team-1", "0", "internals", "x".repeat(30)]) expect(shardProblem(name)).toBeUndefined();
  for (const name of ["A", "a_b", "-a", "a-", "a.b", "x".repeat(31), "internal", "a-internal", "a b"])
    expect(shardProblem(name)).toBeString();
});

test("only a process that shares Services may list Leases", () => {
  const lists = (options: Options): boolean =>
    hostPermissions(options).some(
      ({ resources, verbs, resourceNames }) =>
        resources?.includes("leases") && verbs.includes("list") && resourceNames === undefined,
    );
  for (const options of [ofA(), given({ serviceSelector: "a=b" }), given({ loadBalancerClass: "x" })])
    expect([sharesServices(options), lists(options)]).toEqual([true, true]);
  expect([sharesServices(given({ serviceSelector: " " })), lists(given({}))]).toEqual([false, false]);
});
