import { afterEach, beforeEach, describe, expect, test } from "bun:test";

import { type Clock, kinds, messageOf } from "cloud-controller-host/sdk";
import { eventually, type ManualClock, manualClock } from "cloud-controller-host/sdk/testing";

import { createClient } from "../../../../host/kube/connection/client.ts";
import type { ApiServer, Credentials } from "../../../../host/kube/connection/credentials.ts";
import { serviceAccountApi } from "../../../../host/kube/connection/service-account.ts";
import { createTransport } from "../../../../host/kube/connection/transport.ts";
import { createLogger } from "../../../../host/process/log/log.ts";
import { SandboxApiServer } from "../../../../sdk/testing/api-server/index.ts";

const minute = 60_000;
const account = { namespace: "kube-system", name: "node-controller" };

let api: SandboxApiServer;
let clock: ManualClock;
let stack: AsyncDisposableStack;
let ours: ApiServer;
let lines: string[];
/** The process's own credentials. */
let own: Credentials;
/** The same with another clock. */
let withClock: (other: Clock) => ApiServer;

beforeEach(async () => {
  stack = new AsyncDisposableStack();
  api = stack.use(await SandboxApiServer.start());
  clock = manualClock(Date.now());
  lines = [];
  own = {
    tls: { ca: api.ca },
    headers: { Authorization: `Bearer ${api.tokens.of("cloud-controller-manager")}`, "Impersonate-User": "bob" },
  };
  const root: ApiServer = { url: api.url, proxy: undefined, credentials: async () => own };
  const asking = {
    ...root,
    credentials: async () => ({ ...own, headers: { Authorization: own.headers["Authorization"] ?? "" } }),
  };
  const transport = createTransport(asking, { userAgent: "tokens", qps: -1 });
  stack.defer(() => transport.close());
  const log = createLogger({ format: "text", verbosity: 0, write: (line) => lines.push(line) });
  withClock = (other) => serviceAccountApi(root, { ...account, transport, clock: other, log });
  ours = withClock(clock);
});
afterEach(() => stack.disposeAsync());

const tokenRequests = (): number => api.requests.count({ resource: "serviceaccounts", subresource: "token" });

const tokenOf = async (): Promise<string> => (await ours.credentials()).headers["Authorization"] ?? "";

describe("a service account's credentials", () => {
  test("are a token of the account, which is created if missing, and none of the process's own", async () => {
    const credentials = await ours.credentials();
    expect(api.get(kinds.ServiceAccount, account)?.metadata?.name).toBe("node-controller");
    expect(Object.keys(credentials.headers)).toEqual(["Authorization"]);
    expect(credentials.tls).toEqual({ ca: api.ca });
    const transport = createTransport(ours, { userAgent: "test", qps: -1 });
    stack.defer(() => transport.close());
    await createClient(transport).list(kinds.Node);
    expect(api.requests.list({ resource: "nodes" })).toMatchObject([
      { username: "system:serviceaccount:kube-system:node-controller", status: 200 },
    ]);
  });

  test("do not change an existing account", async () => {
    api.create(kinds.ServiceAccount, { metadata: { ...account, labels: { whose: "ours" } } });
    await ours.credentials();
    expect(api.requests.count({ resource: "serviceaccounts", verb: "create", subresource: "" })).toBe(0);
    expect(api.get(kinds.ServiceAccount, account)?.metadata?.labels).toEqual({ whose: "ours" });
  });

  test("are of an account that another replica creates at the same time", async () => {
    api.create(kinds.ServiceAccount, { metadata: account });
    api.faults.add({ match: { resource: "serviceaccounts", verb: "get" }, effect: { status: 404 }, times: 1 });
    expect(await tokenOf()).toStartWith("Bearer ");
    expect(api.requests.count({ resource: "serviceaccounts", verb: "create", subresource: "" })).toBe(1);
  });

  test("have the CA of the process's own as soon as that is another one", async () => {
    const { headers } = await ours.credentials();
    own = { ...own, tls: { ca: "another CA" } };
    expect(await ours.credentials()).toEqual({ headers, tls: { ca: "another CA" } });
  });

  test("are kept for eight minutes at least, although the clock is ahead of the API server's", async () => {
    ours = withClock({ ...clock, now: () => clock.now() + 24 * 60 * minute });
    const first = await tokenOf();
    await clock.advance(8 * minute - 1);
    expect(await tokenOf()).toBe(first);
    await clock.advance(1);
    expect(await tokenOf()).not.toBe(first);
  });

  test("are requested once for any number of waiting requests", async () => {
    const tokens = await Promise.all(Array.from({ length: 20 }, () => tokenOf()));
    expect(new Set(tokens).size).toBe(1);
    expect(tokenRequests()).toBe(1);
  });

  test("are renewed after 80 % of their lifetime, and not before", async () => {
    const first = await tokenOf();
    await clock.advance(47 * minute);
    expect(await tokenOf()).toBe(first);
    // The server's clock runs on: the lifetime is longer by the time that has passed since `clock` was made.
    await clock.advance(minute + 5_000);
    expect(await tokenOf()).not.toBe(first);
    expect(tokenRequests()).toBe(2);
  });

  test("are renewed once and at once when the API server rejects them", async () => {
    const before = await ours.credentials();
    api.tokens.revoke("system:serviceaccount:kube-system:node-controller");
    const after = await Promise.all([1, 2, 3].map(() => ours.credentials({ rejected: before })));
    expect(after[0]?.headers).not.toEqual(before.headers);
    expect(new Set(after.map(({ headers }) => headers["Authorization"])).size).toBe(1);
    expect(tokenRequests()).toBe(2);
  });

  test("survive the deletion of the account, which is created again", async () => {
    const before = await ours.credentials();
    api.delete(kinds.ServiceAccount, account);
    await ours.credentials({ rejected: before });
    expect(api.get(kinds.ServiceAccount, account)).toBeDefined();
  });

  test("a service account's credentials that cannot be renewed stay in use until they expire, with a warning", async () => {
    const first = await tokenOf();
    api.faults.add({ match: { subresource: "token" }, effect: { status: 403 }, times: 99 });
    await clock.advance(49 * minute);
    const renewing = tokenOf();
    await settle(renewing);
    expect(await renewing).toBe(first);
    expect(await tokenOf()).toBe(first);
    expect(tokenRequests()).toBe(5);
    expect(lines.join("")).toContain("Failed to renew a service account token");
    await clock.advance(12 * minute);
    const failing = tokenOf().catch(messageOf);
    await settle(failing);
    expect(await failing).toContain("no token for the service account kube-system/node-controller");
  });

  test("a service account's credentials that cannot be requested fail the request after four attempts, naming flag and account", async () => {
    api.faults.add({ match: { resource: "serviceaccounts", verb: "get" }, effect: { status: 500 }, times: 4 });
    const failing = tokenOf().catch(messageOf);
    const attempts = (): number => api.requests.count({ resource: "serviceaccounts", verb: "get" });
    for (const [index, pauseMs] of [500, 1_000, 2_000].entries()) {
      await eventually("it pauses after an attempt", () => attempts() === index + 1 && clock.sleepers === 1);
      await clock.advance(pauseMs - 1);
      expect([attempts(), clock.sleepers]).toEqual([index + 1, 1]);
      await clock.advance(1);
    }
    expect(await failing).toContain(
      "--use-service-account-credentials: no token for the service account kube-system/node-controller: ",
    );
    expect(attempts()).toBe(4);
    expect(await tokenOf()).toStartWith("Bearer ");
  });
});

/** Lets all pauses pass until the work is done. */
async function settle(work: Promise<unknown>): Promise<void> {
  const done = new AbortController();
  void work.finally(() => done.abort());
  await eventually("the tries are over", async () => {
    await clock.advance(500);
    return done.signal.aborted;
  });
}
