import { describe, expect, setDefaultTimeout, test } from "bun:test";

import { manualClock } from "cloud-controller-host/sdk/testing";
import * as fc from "fast-check";

import { createLogger, type LogOptions } from "../../../../host/process/log/log.ts";
import { redactText } from "../../../../host/process/log/redact.ts";
import { LogStream } from "../../../../host/process/log/stream.ts";
import { ThrottledLog } from "../../../../host/process/log/throttled-log.ts";
import { processorMs } from "../../../kit/processor-time.ts";

setDefaultTimeout(120_000);

const logged = (options: Partial<LogOptions>, use: (log: ReturnType<typeof createLogger>) => void): string[] => {
  const lines: string[] = [];
  use(createLogger({ format: "text", verbosity: 0, ...options, write: (line) => lines.push(line) }));
  return lines;
};
const json = (use: (log: ReturnType<typeof createLogger>) => void, verbosity = 0): Record<string, unknown>[] =>
  logged({ format: "json", verbosity }, use).map((line) => JSON.parse(line));

describe("the text log", () => {
  test("has klog's header, with the controller instead of the file", () => {
    const [line] = logged({}, (log) => log.with({ controller: "service-lb-controller" }).info("synced", { count: 3 }));
    expect(line).toMatch(/^I\d{4} \d\d:\d\d:\d\d\.\d{6} [ \d]{6}\d service-lb-controller\] "synced" count=3\n$/);
  });

  test("starts warnings with W and errors with E", () => {
    const lines = logged({}, (log) => {
      log.warn("careful");
      log.error("broken", { error: new Error("outer", { cause: new Error("inner") }) });
    });
    expect(lines[0]).toStartWith("W");
    expect(lines[1]).toStartWith("E");
    expect(lines[1]).toEndWith('cloud-controller-manager] "broken" err="outer: inner"\n');
  });

  test("adds where an error comes from to its line, and to no other", () => {
    const locate = (error: Error) => ({ class: error.name, at: "plugin.ts:1:2" });
    const lines = logged({ locate }, (log) => {
      log.with({ controller: "a-controller" }).warn("late", { error: new TypeError("boom") });
      log.warn("early", { reason: "boom" });
    });
    expect(lines[0]).toEndWith('"late" err="boom" class="TypeError" at="plugin.ts:1:2"\n');
    expect(lines[1]).toEndWith('"early" reason="boom"\n');
  });

  test("rounds fractions to three digits, and leaves whole numbers as they are", () => {
    const [line] = logged({}, (log) =>
      log.info("timed", { tiny: 0.00009614200000032724, short: 1.23456, long: 1234.5, count: 123456 }),
    );
    expect(line).toEndWith('"timed" tiny=0.0000961 short=1.23 long=1235 count=123456\n');
  });

  test("keeps every entry on one line, whatever it contains", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: "binary" }),
        fc.string({ unit: "binary" }),
        fc.anything(),
        (message, key, value) => {
          const lines = logged({}, (log) => log.info(message, { [key]: value }));
          expect(lines).toHaveLength(1);
          expect(lines[0]?.split(/[\n\r\u2028\u2029]/)).toHaveLength(2);
        },
      ),
      { seed: 20, numRuns: 300 },
    );
  });

  test("truncates long texts, and reports how much", () => {
    const long = "x".repeat(250_000);
    const [line = ""] = logged({}, (log) => log.error(long, { id: long, inside: [long], error: new Error(long) }));
    expect(line.length).toBeLessThan(70_000);
    expect(line.split("x… (233616 more characters)")).toHaveLength(4);
    expect(line.split("x… (234000 more characters)")).toHaveLength(2);
    const longest = "x".repeat(16_384);
    expect(logged({}, (log) => log.info(longest))[0]).toEndWith(`"${longest}"\n`);
    expect(logged({}, (log) => log.info(`${longest}y`))[0]).toContain("x… (1 more characters)");
  });

  test("quotes strings, but not numbers and booleans", () => {
    const [line] = logged({}, (log) => log.info("m", { a: 'say "hi"', b: 1, c: true, d: undefined, e: { f: [1] } }));
    expect(line).toEndWith(String.raw`"m" a="say \"hi\"" b=1 c=true e={"f":[1]}` + "\n");
  });

  test("shows a stack only from verbosity 4 on", () => {
    const error = new Error("no");
    expect(logged({ verbosity: 3 }, (log) => log.error("m", { error }))[0]).not.toContain("log.test.ts");
    expect(logged({ verbosity: 4 }, (log) => log.error("m", { error }))[0]).toContain("log.test.ts");
  });
});

describe("the json log", () => {
  test("the json log has a stack only from verbosity 4 on", () => {
    const error = new Error("no");
    const stackAt = (verbosity: number): boolean =>
      logged({ format: "json", verbosity }, (log) => log.error("m", { error }))[0]?.includes('"stack":"') === true;
    expect([3, 4].map(stackAt)).toEqual([false, true]);
  });

  test("is one object per line: level, time, verbosity, source, fields, message", () => {
    const lines = logged({ format: "json" }, (log) => {
      log.info("said", { n: 1 });
      log.error("failed");
    });
    expect(lines.map((line) => line.replace(/"ts":\d{13},/, '"ts":0,'))).toEqual([
      '{"level":"info","ts":0,"v":0,"logger":"cloud-controller-manager","n":1,"msg":"said"}\n',
      '{"level":"error","ts":0,"logger":"cloud-controller-manager","msg":"failed"}\n',
    ]);
  });

  test("is one object per line with level, time, source and message", () => {
    const [line] = json((log) => log.with({ controller: "cloud-node-controller", node: "a" }).warn("odd", { n: 1 }));
    expect(line).toEqual({
      level: "warn",
      ts: expect.any(Number),
      logger: "cloud-node-controller",
      msg: "odd",
      node: "a",
      n: 1,
    });
  });

  test("carries the verbosity of the line", () => {
    expect(json((log) => log.debug(2, "detail"), 2)[0]).toMatchObject({ v: 2, level: "info" });
  });

  test("keeps its own field names when a caller uses one of them", () => {
    expect(json((log) => log.info("m", { msg: "theirs", level: "x" }))[0]).toMatchObject({
      msg: "m",
      msg_: "theirs",
      level: "info",
      level_: "x",
    });
  });

  test("accepts values that cannot be serialized", () => {
    const loop: Record<string, unknown> = { big: 10n, no: Number.NaN };
    loop["self"] = loop;
    const bad = {
      get value(): never {
        throw new Error("getter");
      },
    };
    expect(json((log) => log.info("m", { loop, bad }))[0]).toMatchObject({
      loop: { big: "10", no: "NaN", self: { big: "10" } },
      bad: "<unreadable: getter>",
    });
  });

  test.each<[what: string, value: unknown, shown: unknown]>([
    ["a date", new Date(0), "1970-01-01T00:00:00.000Z"],
    ["a date that is none", new Date(Number.NaN), "<invalid date>"],
    [
      "a URL without its secrets",
      new URL("https://a.example/b?sig=hunter2&x=1"),
      "https://a.example/b?sig=[redacted]&x=1",
    ],
    ["bytes by their number", new Uint8Array(3), "<3 bytes>"],
    ["a function by its name", function named() {}, "<function named>"],
    ["a symbol", Symbol("s"), "Symbol(s)"],
    ["a set", new Set(["a"]), ["a"]],
    ["a map", new Map([["a", 1]]), { a: 1 }],
    ["a hundred items", Array.from({ length: 102 }, () => 0), [...Array.from({ length: 100 }, () => 0), "… 2 more"]],
    ["nothing", null, null],
  ])("shows %s", (_what, value, shown) => {
    expect(json((log) => log.info("m", { value }))[0]?.["value"]).toEqual(shown);
  });

  test("shows six levels of nested values", () => {
    const nested = (depth: number): unknown => (depth === 0 ? [{}, []] : { in: nested(depth - 1) });
    const [line] = json((log) => log.info("m", { five: nested(5), six: nested(6) }));
    expect(line?.["five"]).toEqual({ in: { in: { in: { in: { in: ["{…}", "[…]"] } } } } });
    expect(line?.["six"]).toEqual({ in: { in: { in: { in: { in: { in: "[…]" } } } } } });
  });
});

/** `u:hunter2`, as Basic credentials are. */
const encoded = Buffer.from("u:hunter2").toString("base64");

describe("either log", () => {
  test("never shows the value of a field with a secret name", () => {
    for (const format of ["text", "json"] as const) {
      const [line] = logged({ format }, (log) =>
        log.info("m", {
          password: "hunter2",
          clientSecret: "hunter2",
          aadClientSecret: "hunter2",
          Authorization: "hunter2",
          continue_token: "hunter2",
          accountKey: "hunter2",
          nested: [{ token: "hunter2" }],
          map: new Map([["secret", "hunter2"]]),
          secretName: "azure-cloud-provider",
        }),
      );
      expect(line).not.toContain("hunter2");
      expect(line).toContain("azure-cloud-provider");
    }
  });

  test("never shows a bearer token or query signature quoted in an error", () => {
    const [line] = logged({}, (log) =>
      log.error("m", {
        error: new Error("GET https://x/?sig=abcdef0123&a=b with Authorization: Bearer abc.def.ghi-jkl"),
      }),
    );
    expect(line).not.toContain("abcdef0123");
    expect(line).not.toContain("abc.def");
    expect(line).toContain("&a=b");
  });

  test.each([
    ["JSON", 'failed: {"aadClientSecret":"hunter2 \\"x\\" y","tenantId":"t-1"}', '"tenantId":"t-1"}'],
    ["JSON inside JSON", String.raw`{"data":"{\"clientSecret\":\"hunter2\",\"b\":1}"}`, String.raw`\"b\":1}`],
    ["quotes of JSON inside JSON", String.raw`{"data":"{\"token\":\"a\\\"hunter2\",\"b\":1}"}`, String.raw`\"b\":1}`],
    ["JSON cut short", '{"password": "hunter2', "password"],
    ["YAML", "aadClientSecret: hunter2-abcdef\ntenantId: t-1", "tenantId: t-1"],
    ["a bearer token without its header", "got bearer hunter2.abc back", " back"],
    ["basic credentials", `header Basic ${encoded} end`, " end"],
    ["an Authorization header", "Authorization: Basic hunter2, Accept: */*", "Accept: */*"],
    ["URL userinfo", "GET https://user:hunter2@host/x?a=b", "@host/x?a=b"],
    ["URL userinfo without a user", "dial https://hunter2@host", "@host"],
    ["a JWT", "got eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJodW50ZXIyIn0.hunter2 back", " back"],
    [
      "a JWT after other words",
      "got x.y-eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJodW50ZXIyIn0.hunter2 back",
      "x.y-[redacted] back",
    ],
    [
      "JSON in four levels of strings",
      ["a", "b", "c", "d"].reduce((inner, key) => JSON.stringify({ [key]: inner }), '{"token":"hunter2","e":1}'),
      "e",
    ],
    ["a form", "grant=x&client_secret=hunter2&scope=s", "&scope=s"],
    ["a private key", "-----BEGIN RSA PRIVATE KEY-----\nhunter2\n-----END RSA PRIVATE KEY----- rest", " rest"],
  ])("never shows a secret in %s, in a message, a field or an error, and keeps the rest", (_, text, rest) => {
    const line = logged({ format: "json" }, (log) => log.error(text, { text, list: [text], error: new Error(text) }));
    for (const secret of ["hunter2", encoded]) expect(line.join("")).not.toContain(secret);
    const entry: unknown = JSON.parse(line.join(""));
    expect(entry).toMatchObject({ msg: expect.stringContaining(rest), err: expect.stringContaining(rest) });
  });

  test.each([
    ["abcdefg1", "[redacted]"],
    ["abcdef1", "abcdef1"],
    ["a".repeat(24), "[redacted]"],
    ["a".repeat(23), "a".repeat(23)],
  ])("shows a bearer token of 8 characters with a digit, or of 24, as redacted: %s as %s", (token, shown) => {
    expect(json((log) => log.info(`Bearer ${token}`))[0]).toMatchObject({ msg: `Bearer ${shown}` });
  });

  test.each([
    "Bearer authentication failed, Basic authentication too",
    "token: expired, password: required, secret: not found",
    "failed to get token: context deadline exceeded",
    "clientSecret: is missing; aadClientSecret: required",
    "secret kube-system/azure-cloud-provider: key cloud-config not found",
    '"token" of basic test cases at user@host and https://host/a@b',
    '{"secretName":"azure-cloud-provider","tokenExpirationSeconds":"3600"}',
    "a certificate signed by unknown authority",
  ])("leaves ordinary words as they are: %s", (text) => {
    expect(json((log) => log.info(text, { text }))[0]).toMatchObject({ msg: text, text });
  });

  test("redacts in linear time, whatever the text", () => {
    for (const piece of [
      '"',
      '\\"',
      "a_b",
      "://",
      "eyJ",
      'x":"',
      '\\\\"password',
      "Bearer ",
      "-----BEGIN PRIVATE KEY-----",
    ]) {
      const text = piece.repeat(16_384 / piece.length);
      const ms = processorMs(() => logged({}, (log) => log.info(text)));
      expect([piece, ms < 500]).toEqual([piece, true]);
    }
  });

  test.each(["\\", "eyJ-", '"password":"\\', "aaaaaaaaaaaa.", "Authorization: ", '"clientSecret":"\\"'])(
    "redacts a long text in linear time, as of an event or a provider ID that a tenant writes: %s",
    (piece) => {
      const text = piece.repeat(120_000 / piece.length);
      expect(processorMs(() => redactText(text))).toBeLessThan(500);
    },
  );

  test("applies a change of verbosity at once, also in children", () => {
    const lines = logged({}, (log) => {
      const child = log.with({ controller: "a" });
      child.debug(2, "hidden");
      log.setVerbosity(2);
      child.debug(2, "seen");
      child.debug(3, "hidden");
    });
    expect(lines).toHaveLength(1);
  });

  test("raises the verbosity of the sources that vmodule names", () => {
    const lines = logged({ vmodule: "service-*=4,other=9" }, (log) => {
      log.with({ controller: "service-lb-controller" }).debug(4, "seen");
      log.with({ controller: "service-lb-controller" }).debug(5, "hidden");
      log.with({ controller: "cloud-node-controller" }).debug(1, "hidden");
    });
    expect(lines).toHaveLength(1);
  });

  test("refuses an invalid vmodule, naming the flag", () => {
    expect(() => createLogger({ format: "text", verbosity: 0, vmodule: "x" })).toThrow("--vmodule");
  });

  test("does not block the process without a reader, and flushes at shutdown", async () => {
    const { written, read } = withSleepingReader(`
      for (let i = 0; i < 3000; i++) log.info("x".repeat(1000), { i });
      console.error("written");
      await log.flush();
    `);
    expect(await written).toBe("written\n");
    expect((await read()).map((line) => JSON.parse(line)["i"])).toEqual(Array.from({ length: 3000 }, (_, i) => i));
  });

  test("waits for nothing at shutdown without pending lines", async () => {
    const began = performance.now();
    await new LogStream(process.stdout, String).flush(30_000);
    expect(performance.now() - began).toBeLessThan(5_000);
  });

  test("drops lines instead of growing when its reader stalls, and reports how many", async () => {
    const { written, read } = withSleepingReader(`
      for (let i = 0; i < 20_000; i++) log.info("x".repeat(1000), { i });
      console.error("written");
      await log.flush();
      log.info("after");
      await log.flush();
    `);
    await written;
    const lines = await read();
    expect(lines.length).toBeLessThan(10_000);
    const [lost, after] = lines.slice(-2).map((line): unknown => JSON.parse(line));
    const missing = 20_000 - (lines.length - 2);
    expect(lost).toHaveProperty("msg", `${missing} log lines were dropped: the reader of the log did not keep up`);
    expect(after).toHaveProperty("msg", "after");
  });
});

interface Sleeping {
  /** What the process says on stderr once it has logged. */
  readonly written: Promise<string>;
  /** Wakes the log's reader; resolves with all lines. */
  readonly read: () => Promise<readonly string[]>;
}

/** Runs a script whose log goes to a process that reads nothing until a signal. */
function withSleepingReader(script: string): Sleeping {
  const log = JSON.stringify(require.resolve("../../../../host/process/log/log.ts"));
  const source = `
    const { createLogger } = await import(${log});
    const log = createLogger({ format: "json", verbosity: 0 });
    ${script}
    process.exit(0);
  `;
  const pipeline = 'exec 3<&0; "$0" -e "$1" </dev/null | { read go <&3; exec cat; }';
  const child = Bun.spawn(["sh", "-c", pipeline, process.execPath, source], {
    stdin: "pipe",
    stdout: "pipe",
    stderr: "pipe",
  });
  return {
    written: child.stderr
      .getReader()
      .read()
      .then(({ value }) => new TextDecoder().decode(value)),
    async read() {
      await child.stdin.write("go\n");
      await child.stdin.end();
      return (await new Response(child.stdout).text()).trimEnd().split("\n");
    },
  };
}

describe("lines that strangers can cause", () => {
  test("are at most 20 at once and one per second, which counts those left out", async () => {
    const clock = manualClock();
    const lines: unknown[] = [];
    const log = createLogger({ format: "json", verbosity: 0, write: (line) => lines.push(JSON.parse(line)) });
    const throttled = new ThrottledLog(log, clock);
    for (let i = 0; i < 1_000; i++) throttled.error("Unable to authenticate the request", { srcIP: "192.0.2.1:1" });
    expect(lines).toHaveLength(20);
    await clock.advance(1_000);
    for (let i = 0; i < 10; i++) throttled.error("Unable to authenticate the request", { srcIP: "192.0.2.1:2" });
    expect(lines).toHaveLength(21);
    expect(lines[20]).toMatchObject({ level: "error", suppressed: 980, srcIP: "192.0.2.1:2" });
    await clock.advance(60_000);
    for (let i = 0; i < 1_000; i++) throttled.error("Unable to authenticate the request", {});
    expect(lines).toHaveLength(41);
  });
});
