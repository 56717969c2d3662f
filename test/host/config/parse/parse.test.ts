import { describe, expect, test } from "bun:test";

import { defaultOptions } from "../../../../host/config/flags/options.ts";
import { parse, peek } from "../../../../host/config/parse/parse.ts";
import { problemsOf, run } from "../command-line.ts";

describe("the forms of a flag", () => {
  test("takes its value after '=' or as the next argument", () => {
    expect(run(["--cluster-name=one"]).options.clusterName).toBe("one");
    expect(run(["--cluster-name", "one"]).options.clusterName).toBe("one");
    expect(run(["--cluster-name", "--odd"]).options.clusterName).toBe("--odd");
    expect(run(["--cluster-name="]).options.clusterName).toBe("");
    expect(run(["--cluster-name=a=b"]).options.clusterName).toBe("a=b");
  });
  test("is a switch alone or with '=', and never takes the next argument", () => {
    expect(run(["--allocate-node-cidrs"]).options.allocateNodeCidrs).toBe(true);
    expect(run(["--profiling=f"]).options.profiling).toBe(false);
    expect(problemsOf(["--profiling", "false"])).toEqual([
      '"cloud-controller-host" does not take any arguments, got ["false"]',
    ]);
  });
  test("may be written with underscores", () => {
    expect(run(["--cluster_name=one"]).options.clusterName).toBe("one");
  });
  test("may be one letter", () => {
    for (const argv of [["-v=3"], ["-v3"], ["-v", "3"], ["--v=3"], ["--v", "3"]]) expect(run(argv).options.v).toBe(3);
    expect(parse(["-h"])).toEqual({ kind: "help" });
    expect(parse(["-hv3"])).toEqual({ kind: "help" });
  });
  test("has the last value given, or for a list all of them", () => {
    expect(run(["--cluster-name=one", "--cluster-name=two"]).options.clusterName).toBe("two");
    expect(run(["--controllers=a,b", "--controllers", "c"]).options.controllers).toEqual(["a", "b", "c"]);
    expect(run(["--feature-gates=AllBeta=true", "--feature-gates=AllBeta=false"]).options.featureGates).toEqual({
      AllBeta: false,
    });
  });
  test("takes one file per migration, commas included, and none from an empty argument", () => {
    const files = ["--leader-migration-config=/a,b.yaml", "--leader-migration-config", "/c.yaml"];
    expect(run(files).options.leaderMigrationConfig).toEqual(["/a,b.yaml", "/c.yaml"]);
    expect(run(["--leader-migration-config="]).options.leaderMigrationConfig).toEqual([]);
  });
  test("an empty list replaces the default", () => {
    expect(run(["--controllers="]).options.controllers).toEqual([]);
  });
});

describe("an invalid command line", () => {
  const cases: readonly [argv: readonly string[], problem: string][] = [
    [["--x"], "unknown flag: --x"],
    [["--x=1"], "unknown flag: --x"],
    [["---x"], "bad flag syntax: ---x"],
    [["--=x"], "bad flag syntax: --=x"],
    [["-x"], "unknown shorthand flag: 'x' in -x"],
    [["--master"], "flag needs an argument: --master"],
    [["-v"], "flag needs an argument: 'v' in -v"],
    [["-v=x"], 'invalid argument "x" for "-v, --v" flag: must be a whole number from 0 to 2147483647'],
    [["--secure-port=x"], 'invalid argument "x" for "--secure-port" flag: must be a whole number'],
    [["--bind-address=xx"], 'invalid argument "xx" for "--bind-address" flag: must be an IPv4 or IPv6 address'],
    [["--leader-elect=xx"], 'invalid argument "xx" for "--leader-elect" flag: must be true or false'],
    [
      ["--leader-elect-lease-duration=5"],
      'invalid argument "5" for "--leader-elect-lease-duration" flag: must be a duration with units, such as 15s or 1h30m',
    ],
    [
      ["--feature-gates=Foo"],
      'invalid argument "Foo" for "--feature-gates" flag: Foo needs a value: Foo=true or Foo=false',
    ],
    [["--feature-gates=Foo=true"], 'invalid argument "Foo=true" for "--feature-gates" flag: unknown feature gate: Foo'],
    [
      ["--feature-gates=ComponentStatuz=false"],
      'invalid argument "ComponentStatuz=false" for "--feature-gates" flag: unknown feature gate: ComponentStatuz (did you mean ComponentStatusz?)',
    ],
    [
      ["--feature-gates=AllAlpha=xx"],
      'invalid argument "AllAlpha=xx" for "--feature-gates" flag: AllAlpha=xx must be true or false',
    ],
    [
      ["--feature-gates=BtreeWatchCache=false"],
      'invalid argument "BtreeWatchCache=false" for "--feature-gates" flag: the feature gate BtreeWatchCache is locked to true',
    ],
    [
      ["--tls-sni-cert-key=x"],
      'invalid argument "x" for "--tls-sni-cert-key" flag: must be the paths of a certificate and of its key, with a comma between them',
    ],
    [
      ['--controllers=a"b'],
      'invalid argument "a\\"b" for "--controllers" flag: an item with the " at character 2 must begin with one',
    ],
    [["foo", "bar"], '"cloud-controller-host" does not take any arguments, got ["foo" "bar"]'],
    [["--", "--profiling"], '"cloud-controller-host" does not take any arguments, got ["--profiling"]'],
  ];
  test.each(cases)("%p is refused in the Go binaries' words", (argv, problem) => {
    expect(problemsOf(argv)).toEqual([problem]);
  });

  test.each([
    ["--port=0", "unknown flag: --port (removed from Kubernetes; use --secure-port)"],
    ["--address=::", "unknown flag: --address (removed from Kubernetes; use --bind-address)"],
    [
      "--logtostderr",
      "unknown flag: --logtostderr (removed from Kubernetes; the log goes to standard error: leave it out)",
    ],
    ["--log_dir=/x", "unknown flag: --log_dir (removed from Kubernetes; the log goes to standard error: leave it out)"],
  ])("%s, which older Go binaries had, is refused with a remedy", (flag, problem) => {
    expect(problemsOf([flag])).toEqual([problem]);
  });

  test("gates of Kubernetes 1.36 and of 1.37 are accepted", () => {
    const of136 = "BtreeWatchCache=true,StructuredAuthenticationConfiguration=true,SeparateCacheWatchRPC=true";
    const of137 = "EtcdRangeStream=false,WatchListCompression=false,APIServerWebhookAuthenticationToken=true";
    expect(parse([`--feature-gates=${of136},${of137}`])).toMatchObject({ kind: "run" });
  });

  test("every problem is reported at once, in the order of the command line", () => {
    const command = parse(["--secure-port=x", "--unknown", "its-value", "--feature-gates=Foo=true", "stray", "-q"]);
    expect(command).toEqual({
      kind: "refused",
      options: expect.objectContaining({ securePort: defaultOptions.securePort }),
      problems: [
        'invalid argument "x" for "--secure-port" flag: must be a whole number',
        "unknown flag: --unknown",
        'invalid argument "Foo=true" for "--feature-gates" flag: unknown feature gate: Foo',
        "unknown shorthand flag: 'q' in -q",
        '"cloud-controller-host" does not take any arguments, got ["stray"]',
      ],
      usageHint: expect.stringContaining("--help"),
    });
  });
  test("every problem of a list of feature gates is reported at once, each with its gate", () => {
    const list = "AllAlpha=xx, Foo=yes,AllBeta,BtreeWatchCache=false,=true,APIServerTracing=0=1,Foo=yes";
    expect(problemsOf([`--feature-gates=${list}`])).toEqual([
      `invalid argument "${list}" for "--feature-gates" flag: ${[
        "AllAlpha=xx must be true or false",
        "unknown feature gate: Foo",
        "Foo=yes must be true or false",
        "AllBeta needs a value: AllBeta=true or AllBeta=false",
        "the feature gate BtreeWatchCache is locked to true",
        "=true needs the name of a feature gate before the =",
        "APIServerTracing=0=1 must be true or false",
      ].join("; ")}`,
    ]);
  });
  test("a list of feature gates may have spaces and empty items, and the last setting of a gate applies", () => {
    const list = " AllAlpha = T ,,BtreeWatchCache=true, AllBeta=1,AllBeta=f,";
    expect(run(["--feature-gates=WatchList=false,AllAlpha=0", `--feature-gates=${list}`]).options.featureGates).toEqual(
      {
        WatchList: false,
        AllAlpha: true,
        BtreeWatchCache: true,
        AllBeta: false,
      },
    );
  });
  test("ignores empty arguments, as from unset shell variables", () => {
    expect(run(["", "--v=1", ""]).options.v).toBe(1);
  });
});

describe("the command on the command line", () => {
  test("help, even where other flags are wrong", () => {
    expect(parse(["--x", "--help", "stray"])).toEqual({ kind: "help" });
  });
  test("the version, short or raw", () => {
    expect(parse(["--version"])).toEqual({ kind: "version", raw: false });
    expect(parse(["--version=true"])).toEqual({ kind: "version", raw: false });
    expect(parse(["--version=raw"])).toEqual({ kind: "version", raw: true });
    expect(run(["--version=false"]).options.version).toBe("false");
    expect(run(["--version=v1.2.3"]).options.version).toBe("v1.2.3");
  });
});

describe("warnings about a command line", () => {
  test("are absent for plain flags", () => {
    expect(run(["--cluster-name=one", "--feature-gates=AllAlpha=true"]).notices).toEqual([]);
  });
  test("name a deprecated flag", () => {
    const { notices } = run(["--allow-untagged-cloud", "--node-sync-period=1m"]);
    expect(notices).toEqual([
      expect.stringMatching(/^Flag --allow-untagged-cloud has been deprecated, /),
      expect.stringMatching(/^Flag --node-sync-period has been deprecated, /),
    ]);
  });
  test.each([
    ["--contention-profiling", "accepted without effect"],
    ["--log-flush-frequency=1s", "accepted without effect"],
    ["--node-cidr-mask-size=24", "is ignored"],
    ["--external-cloud-volume-plugin=x", "accepted without effect"],
    ["--tls-cipher-suites=TLS_RSA_WITH_AES_128_CBC_SHA", "TLS_RSA_WITH_AES_128_CBC_SHA, which is insecure"],
    ["--requestheader-username-headers=x-user", "X-Remote-User"],
    ["--feature-gates=WatchList=false", "WatchList, which has no effect"],
    [
      "--feature-gates=CoordinatedLeaderElection=true",
      "sets CoordinatedLeaderElection, which has no effect in this program: leaders are elected by this program's own Lease alone",
    ],
  ])("name %s, which has no or another effect", (flag, reported) => {
    const name = flag.split("=")[0] ?? "";
    expect(run([flag]).notices).toEqual([expect.stringContaining(reported)]);
    expect(run([flag]).notices[0]).toStartWith(name);
  });
});

test("lists every flag with its effective value, for the log and /flagz", () => {
  const { settings } = run(["--controllers=*,-route", "--v=2"]);
  const byName = new Map(settings.map((setting) => [setting.name, setting]));
  expect(settings.map(({ name }) => name)).toEqual(settings.map(({ name }) => name).toSorted());
  expect(byName.get("controllers")).toEqual({ name: "controllers", text: "[*,-route]", given: true });
  expect(byName.get("min-resync-period")).toEqual({ name: "min-resync-period", text: "12h0m0s", given: false });
});

test("finds the plugin folders before plugins are loaded, whatever else is on the command line", () => {
  const early = peek([
    "--bad",
    "--cloud-config=/c",
    "--my-plugin-flag=3",
    "--plugin-dir=/a",
    "--secure-port=x",
    "--plugin-dir",
    "/b",
    "stray",
  ]);
  expect(early).toEqual({
    cloudConfig: "/c",
    help: false,
    pluginDir: ["/a", "/b"],
    pluginFailurePolicy: "skip",
    pluginLock: "",
    pluginInitTimeout: 30_000,
    version: "false",
  });
});
