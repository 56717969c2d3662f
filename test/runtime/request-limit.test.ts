import { afterAll, expect, test } from "bun:test";

import { eventually } from "cloud-controller-host/sdk/testing";

import { createTransport } from "../../host/kube/connection/transport.ts";

/** The most requests of `fetch` that Bun keeps in flight in one process, unless an environment variable raises it. */
const processLimit = Number(process.env["BUN_CONFIG_MAX_HTTP_REQUESTS"] ?? 256);

let received = 0;
const server = Bun.serve({
  port: 0,
  hostname: "127.0.0.1",
  idleTimeout: 0,
  fetch(request) {
    if (new URL(request.url).pathname !== "/hang") return Response.json({ answered: true });
    received += 1;
    return new Promise<Response>(() => undefined);
  },
});
afterAll(() => server.stop(true));

const lease = async (dedicated: boolean, timeoutMs: number): Promise<string> => {
  const access = {
    url: server.url.origin,
    proxy: undefined,
    credentials: () => Promise.resolve({ tls: {}, headers: {} }),
  };
  const transport = createTransport(access, { userAgent: "test", qps: -1, timeoutMs, dedicated });
  const answer = await transport.send({ method: "GET", path: "/lease" }).then(
    () => "answered",
    () => "starved",
  );
  transport.close();
  return answer;
};

test("the lease's requests get through while others fill the process-wide limit of fetch", async () => {
  const stop = new AbortController();
  const hanging = Array.from({ length: processLimit }, () =>
    fetch(`${server.url.origin}/hang`, { signal: stop.signal }).catch(() => undefined),
  );
  try {
    await eventually("all of them hang", () => received === processLimit, 30_000);
    // The limit is real: without a connection of another kind the request waits for one of the 256 to end.
    expect(await lease(false, 1_500)).toBe("starved");
    expect(await lease(true, 30_000)).toBe("answered");
  } finally {
    stop.abort();
    await Promise.all(hanging);
  }
});
