import { describe, expect, test } from "bun:test";

import { formatProblems, type Offer, validate } from "../../../../host/config/validate/validate.ts";
import { resolveControllers } from "../../../../host/config/values/controller-list.ts";
import { run } from "../command-line.ts";

const offer: Offer = {
  controllers: [
    { name: "cloud-node-controller", aliases: ["cloud-node"] },
    { name: "cloud-node-lifecycle-controller", aliases: ["cloud-node-lifecycle"] },
    { name: "service-lb-controller", aliases: ["service", "service-controller"] },
    { name: "node-route-controller", aliases: ["route"] },
    { name: "node-ipam", aliases: ["nodeipam"] },
    { name: "rare-controller", aliases: [], enabledByDefault: false },
  ],
  clouds: ["azure", "other"],
};

/** A command line on which nothing is wrong. */
const sound = ["--cloud-config=/etc/cloud.json", "--cluster-cidr=10.244.0.0/16"];

const problemsWith = (...argv: readonly string[]): readonly string[] =>
  validate(run([...sound, ...argv]).options, offer);

test("accepts a valid command line", () => {
  expect(problemsWith()).toEqual([]);
  expect(problemsWith("--allocate-node-cidrs", "--controllers=*,-service,rare-controller")).toEqual([]);
});

test("every problem is reported at once", () => {
  const problems = validate(
    run(["--cloud-provider=", "--secure-port=70000", "--concurrent-service-syncs=0", "--controllers=*,unknown"])
      .options,
    offer,
  );
  expect(problems.map((problem) => problem.split(" ")[0])).toEqual([
    "--cloud-provider",
    "--concurrent-service-syncs",
    "--secure-port",
    "--controllers:",
    "--cloud-config",
    "--cluster-cidr",
  ]);
});

test("formats one problem as its text, and several one per line without duplicates", () => {
  expect(formatProblems(["a"])).toBe("a");
  expect(formatProblems(["a", "b", "a"])).toBe("2 problems:\n  - a\n  - b");
});

describe("problems that the Go binaries report, in their words", () => {
  const cases: readonly [argv: readonly string[], text: string][] = [
    [["--cloud-provider="], "--cloud-provider cannot be empty"],
    [["--cloud-config="], "--cloud-config cannot be empty when --enable-dynamic-reloading is not set to true"],
    [["--controllers=foo"], '"foo" is not in the list of known controllers'],
    [["--controllers=-foo,*"], '"foo" is not in the list of known controllers'],
    [["--controllers=cloud-nod"], '"cloud-nod" is not in the list of known controllers'],
    [["--leader-elect-resource-lock=endpoints"], '"leases" is the only supported lock'],
    [["--concurrent-node-syncs=0"], "concurrent-node-syncs must be a positive number"],
    [["--concurrent-node-syncs=-1"], "concurrent-node-syncs must be a positive number"],
    [["--concurrent-node-status-updates=-1"], "concurrent-node-status-updates cannot be a negative number"],
    [
      ["--service-cluster-ip-range=10.0.0.0/16,fd00::/108,10.1.0.0/16"],
      "--service-cluster-ip-range can not contain more than two entries",
    ],
    [["--secure-port=65536"], "--secure-port must be between 0 and 65535"],
    [["--secure-port=-1"], "--secure-port must be between 0 and 65535"],
    [["--requestheader-username-headers= "], "--requestheader-username-headers has an empty item"],
    [["--requestheader-uid-headers=x-uid"], "--requestheader-uid-headers does not include X-Remote-Uid"],
    [
      ["--requestheader-uid-headers=x-remote-uid", "--feature-gates=RemoteRequestHeaderUID=false"],
      "--requestheader-uid-headers requires the feature gate RemoteRequestHeaderUID",
    ],
    [["--authorization-always-allow-paths=/a/*/b"], "--authorization-always-allow-paths allows '*' only at the end"],
    [["--tls-cipher-suites=TLS_NULL"], "--tls-cipher-suites names TLS_NULL"],
    [["--tls-min-version=TLS12"], "--tls-min-version must be one of VersionTLS10"],
    [["--tls-curve-preferences=23,23"], "--tls-curve-preferences names 23 twice"],
    [["--tls-curve-preferences=1"], "--tls-curve-preferences names 1"],
    [["--node-filter-requirements=a in b"], '--node-filter-requirements is not a valid label selector at "a in b"'],
  ];
  test.each(cases)("%p", (argv, text) => {
    expect(problemsWith(...argv)).toEqual([expect.stringContaining(text)]);
  });
});

describe("problems that the Go binaries find only after they have started serving", () => {
  const cases: readonly [argv: readonly string[], text: string][] = [
    [
      ["--leader-elect-lease-duration=10s"],
      "--leader-elect-lease-duration must exceed --leader-elect-renew-deadline; got --leader-elect-lease-duration=10s",
    ],
    [["--leader-elect-retry-period=9s"], "--leader-elect-renew-deadline must exceed 1.2 times"],
    [["--leader-elect-retry-period=0s"], "--leader-elect-retry-period must be longer than 0s"],
    [["--leader-elect-resource-name="], "--leader-elect-resource-name cannot be empty"],
    [["--leader-elect-resource-namespace="], "--leader-elect-resource-namespace cannot be empty"],
    [["--cluster-cidr="], "--cluster-cidr cannot be empty; node-route-controller requires"],
    [["--cluster-cidr=10.0.0.0"], '--cluster-cidr has "10.0.0.0", which is not a CIDR'],
    [["--cluster-cidr=10.0.0.0/16, fd00::/64"], '--cluster-cidr has " fd00::/64", which is not a CIDR'],
    [["--cluster-cidr=10.0.0.0/16,"], '--cluster-cidr has "", which is not a CIDR'],
    [
      ["--cluster-cidr=010.0.0.0/16,fd00::/064"],
      '--cluster-cidr has "010.0.0.0/16", "fd00::/064", which is not a CIDR',
    ],
    [["--cluster-cidr=10.0.0.0/16,10.1.0.0/16"], "--cluster-cidr has two CIDRs of the same family"],
    [["--cluster-cidr=10.0.0.0/16,fd00::/64,fd01::/64"], "--cluster-cidr can not contain more than two entries"],
    [["--cloud-provider=gce"], '--cloud-provider "gce" is not known; known are azure, other'],
    [["--tls-cert-file=a.crt"], '--tls-cert-file "a.crt" requires --tls-private-key-file'],
    [["--tls-private-key-file=a.key"], '--tls-private-key-file "a.key" requires --tls-cert-file'],
    [["--webhook-tls-cert-file=a.crt"], '--webhook-tls-cert-file "a.crt" requires --webhook-tls-private-key-file'],
    [
      ["--webhook-tls-private-key-file=a.key"],
      '--webhook-tls-private-key-file "a.key" requires --webhook-tls-cert-file',
    ],
    [
      ["--allocate-node-cidrs", "--cidr-allocator-type=Other"],
      "--cidr-allocator-type must be RangeAllocator or CloudAllocator",
    ],
    [
      ["--allocate-node-cidrs", "--node-cidr-mask-size-ipv4=15"],
      "--node-cidr-mask-size-ipv4 is 15, but --cluster-cidr 10.244.0.0/16 is smaller",
    ],
    [
      ["--allocate-node-cidrs", "--cluster-cidr=10.244.0.0/16,fd00::/40"],
      "--node-cidr-mask-size-ipv6 is 64, which is more than 16 bits longer than --cluster-cidr fd00::/40",
    ],
    [
      ["--allocate-node-cidrs", "--service-cluster-ip-range=10.0.0.0/16,10.1.0.0/16"],
      '--service-cluster-ip-range "10.0.0.0/16,10.1.0.0/16" has two CIDRs of the same family',
    ],
    [
      ["--cloud-config=", "--enable-dynamic-reloading", "--cloud-config-secret-name="],
      "--cloud-config-secret-name cannot be empty",
    ],
  ];
  test.each(cases)("%p", (argv, text) => {
    expect(problemsWith(...argv)).toEqual([expect.stringContaining(text)]);
  });
});

describe("an unsupported flag is refused by name", () => {
  test.each([
    [["--log-text-split-stream"], "--log-text-split-stream is not supported"],
    [["--emulated-version=1.35"], "--emulated-version is not supported: this program works with each version"],
    [["--log-json-info-buffer-size=1Ki"], "--log-json-info-buffer-size is not supported"],
    [["--logging-format=xml"], '--logging-format must be text or json, got "xml"'],
    [["--log-format=xml"], '--log-format must be text or json, got "xml"'],
    [["--kube-api-content-type=application/cbor"], "--kube-api-content-type must be application/json"],
    [["--tls-curve-preferences=4589"], "--tls-curve-preferences names 4589, which are not supported"],
  ])("%p", (argv, text) => {
    expect(problemsWith(...argv)).toEqual([expect.stringContaining(text)]);
  });
});

describe("settings that are not used are not required", () => {
  test.each([
    ["the cluster's CIDR without routes", ["--cluster-cidr=", "--configure-cloud-routes=false"]],
    ["the cluster's CIDR without the route controller", ["--cluster-cidr=", "--controllers=*,-route"]],
    ["the cluster's CIDR where only others are named", ["--cluster-cidr=", "--controllers=service"]],
    ["node masks without the allocation of node CIDRs", ["--node-cidr-mask-size-ipv4=8"]],
    [
      "node masks with the cloud's own sizes",
      ["--allocate-node-cidrs", "--cidr-allocator-type=CloudAllocator", "--node-cidr-mask-size-ipv4=8"],
    ],
    [
      "the lease's timings without election",
      ["--leader-elect=false", "--leader-elect-lease-duration=1s", "--leader-elect-resource-lock=x"],
    ],
    ["the cloud config's file when it comes from a Secret", ["--cloud-config=", "--enable-dynamic-reloading"]],
    ["webhook flags without webhooks", ["--webhook-secure-port=10258", "--webhook-cert-dir=/x"]],
    ["more than one service worker", ["--concurrent-service-syncs=10"]],
    ["no controllers at all", ["--controllers="]],
  ])("%s", (_what, argv) => {
    expect(problemsWith(...argv)).toEqual([]);
  });
});

describe("aliases of controllers", () => {
  test("become canonical, with and without a hyphen, in their order", () => {
    const typed = ["service-controller", "-service", "route", "-cloud-node-lifecycle-controller", "*", "unknown"];
    expect(resolveControllers(typed, offer.controllers)).toEqual([
      "service-lb-controller",
      "-service-lb-controller",
      "node-route-controller",
      "-cloud-node-lifecycle-controller",
      "*",
      "unknown",
    ]);
  });
  test("an empty list stays empty", () => {
    expect(resolveControllers([], offer.controllers)).toEqual([]);
  });
});
