import { afterAll, beforeAll, describe, expect, mock, test } from "bun:test";
import * as promises from "node:fs/promises";
import { mkdtemp, rm, stat, symlink, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";

import { manualClock } from "cloud-controller-host/sdk/testing";

import { systemClock } from "../../../../host/async/clock.ts";
import { readBytes, readText } from "../../../../host/config/parse/read-text.ts";
import { TreeContent } from "../../../../host/generation/plugins/copy-files.ts";
import { readSealed } from "../../../../host/generation/plugins/sealed-content.ts";
import { CaFile } from "../../../../host/kube/connection/ca-file.ts";
import { apiServerOf } from "../../../../host/kube/connection/credentials.ts";
import { ClientCAs } from "../../../../host/process/access/client-ca.ts";
import { createLogger } from "../../../../host/process/log/log.ts";
import { loadPair } from "../../../../host/process/serving/certificates.ts";
import { rejection } from "../../../kit/rejection.ts";

let folder = "";
let pipe = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "read-text-"));
  pipe = join(folder, "pipe");
  expect(await Bun.spawn(["mkfifo", pipe]).exited).toBe(0);
});
afterAll(() => rm(folder, { recursive: true }));

const server = { name: "c", server: "https://127.0.0.1:6443", skipTLSVerify: false };
const userOf = (tokenFile: string) => ({ name: "u", authProvider: { name: "tokenFile", config: { tokenFile } } });

describe("a file that the user has named", () => {
  test("is read whole, through links, too", async () => {
    const file = join(folder, "file");
    await writeFile(file, "first\nsecond ü");
    await symlink(file, join(folder, "link"));
    expect(await readText(join(folder, "link"))).toBe("first\nsecond ü");
  });

  test("a file that the user has named that is missing or a folder keeps the error of the system", async () => {
    expect(await readText(join(folder, "missing")).catch((error: unknown) => error)).toMatchObject({ code: "ENOENT" });
    expect(await readText(folder).catch((error: unknown) => error)).toMatchObject({ code: "EISDIR" });
  });

  test("a file that the user has named has 16 MiB at most", async () => {
    const file = join(folder, "large");
    await writeFile(file, "");
    await truncate(file, 16 * 1024 * 1024);
    expect(await readText(file)).toHaveLength(16 * 1024 * 1024);
    await truncate(file, 16 * 1024 * 1024 + 1);
    expect(await rejection(readText(file))).toBe(`${file} has more than 16777216 bytes`);
  });

  test("a file that the user has named is read up to its limit, whatever it says of its size", async () => {
    // A file of the kernel has 0 bytes, as one that grows has fewer than are read.
    expect((await stat("/proc/self/status")).size).toBe(0);
    expect((await readBytes("/proc/self/status", 100_000)).length).toBeWithin(101, 100_000);
    expect(await rejection(readBytes("/proc/self/status", 100))).toBe("/proc/self/status has more than 100 bytes");
  });

  test("is not a device, whose content has no end", async () => {
    expect(await rejection(readText("/dev/zero"))).toBe(
      "/dev/zero is a pipe, a socket or a device; name a regular file",
    );
  });
});

const flags = {
  requestheaderClientCaFile: "",
  requestheaderUsernameHeaders: [],
  requestheaderUidHeaders: [],
  requestheaderGroupHeaders: [],
  requestheaderExtraHeadersPrefix: [],
  requestheaderAllowedNames: [],
  authenticationSkipLookup: true,
  authenticationTolerateLookupFailure: true,
};
const log = createLogger({ format: "json", verbosity: 0, write: () => undefined });
const openClientCAs = (clientCaFile: string): Promise<unknown> =>
  ClientCAs.open({ flags: { ...flags, clientCaFile }, client: undefined, clock: systemClock, log });

/** A folder in which the file was still a regular one when it was listed. */
const treeOf = (path: string) => ({ folder: dirname(path), files: [basename(path)], dependencies: [], stamp: "" });

test.each([
  ["the serving certificate", (path: string) => loadPair({ certFile: path, keyFile: path }), "cannot be read"],
  ["the client CA", openClientCAs, "--client-ca-file: cannot read"],
  ["the CA of the API server", (path: string) => new CaFile(path, undefined).read(), "cannot read the CA file"],
  ["a token", (path: string) => apiServerOf(server, userOf(path)).credentials(), "name a regular file"],
  [
    "a certificate of the client",
    (path: string) => apiServerOf(server, { name: "u", certFile: path }).credentials(),
    "name a regular file",
  ],
  ["a file of a plugin", (path: string) => new TreeContent(treeOf(path)).read(), "name a regular file"],
  ["a file of a locked plugin", (path: string) => readSealed(treeOf(path)), "name a regular file"],
])("a pipe as %s is an error at once, not a read without an end", async (_name, read, problem) => {
  expect(await rejection(read(pipe))).toContain(problem);
});

test("a plugin's file that grows while it is read is read as long as it was", async () => {
  const file = join(folder, "growing");
  await writeFile(file, "x".repeat(100_000));
  const real = { ...promises };
  const open = async (...parameters: Parameters<typeof promises.open>): Promise<promises.FileHandle> => {
    const handle = await real.open(...parameters);
    const sizeBefore = async () => {
      const status = await real.stat(file);
      await real.appendFile(file, "y");
      return status;
    };
    return Object.assign(handle, { stat: sizeBefore });
  };
  await mock.module("node:fs/promises", () => ({ ...real, open }));
  try {
    const content = await new TreeContent(treeOf(file)).read();
    expect(content.get("growing")?.toString()).toBe("x".repeat(100_000));
  } finally {
    await mock.module("node:fs/promises", () => real);
  }
});

test("credentials stay in use while a pipe is in place of the token", async () => {
  const tokenFile = join(folder, "token");
  await writeFile(tokenFile, "first");
  const clock = manualClock();
  const access = apiServerOf(server, userOf(tokenFile), { clock });
  const before = await access.credentials();
  await rm(tokenFile);
  expect(await Bun.spawn(["mkfifo", tokenFile]).exited).toBe(0);
  await clock.advance(60_000);
  expect(await access.credentials()).toEqual(before);
  await rm(tokenFile);
  await writeFile(tokenFile, "second");
  await clock.advance(60_000);
  expect((await access.credentials()).headers["Authorization"]).toBe("Bearer second");
});
