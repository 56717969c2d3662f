import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { brotliCompressSync, gzipSync } from "node:zlib";

import { messageOf } from "cloud-controller-host/sdk";

import { errorOf } from "../../../../kit/rejection.ts";
import { type Gateway, openGateway } from "../gateway.ts";

setDefaultTimeout(120_000);

const json = (body: unknown, headers: Readonly<Record<string, string>> = {}, status = 200) =>
  Response.json(body, { status, headers });
const isList = ({ pathname }: URL, method: string): boolean => method === "GET" && pathname.endsWith("/loadBalancers");

/** A load balancer in a list. */
const balancer = (name: string) => ({
  id: `/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/loadBalancers/${encodeURIComponent(name)}`,
  name,
  properties: {},
});

const listed = async (gateway: Gateway): Promise<unknown> => {
  const { network } = await gateway.clients();
  return errorOf(Array.fromAsync(network.loadBalancers.list("rg0")));
};

describe("a reply of ARM that refers to another host", () => {
  test("a reply of ARM that refers to another host in the address of the next page gets no token there", async () => {
    await using gateway = await openGateway();
    const nextLink = `${gateway.elsewhere}/subscriptions/sub0/next?api-version=1`;
    gateway.answer((url, method) => (isList(url, method) ? json({ value: [], nextLink }) : undefined));
    const error = await listed(gateway);
    expect(error).toMatchObject({ code: "ForeignHost" });
    expect(messageOf(error)).toBe(
      `ARM GET: a reply of ${new URL(gateway.origin).host} refers to ${new URL(gateway.elsewhere).host}; no token is sent to another host`,
    );
    expect(gateway.leaked).toEqual([]);
  });

  test.each(["http", "user information"])(
    "a reply of ARM that refers to another host by %s gets no token there",
    async (how) => {
      await using gateway = await openGateway();
      const nextLink =
        how === "http"
          ? gateway.origin.replace("https", "http")
          : gateway.elsewhere.replace("//", `//${new URL(gateway.origin).hostname}@`);
      gateway.answer((url, method) => (isList(url, method) ? json({ value: [], nextLink }) : undefined));
      expect(await listed(gateway)).toMatchObject({ code: "ForeignHost" });
      expect(gateway.leaked).toEqual([]);
    },
  );

  test.each(["azure-asyncoperation", "location"])(
    "a reply of ARM that refers to another host in %s of a write gets no token there",
    async (header) => {
      await using gateway = await openGateway();
      gateway.answer((_url, method) =>
        method === "PUT"
          ? json(
              { name: "x", properties: { provisioningState: "Updating" } },
              { [header]: `${gateway.elsewhere}/subscriptions/sub0/operations/1`, "retry-after": "0" },
              202,
            )
          : undefined,
      );
      const { network } = await gateway.clients();
      const error = await errorOf(network.loadBalancers.createOrUpdate("rg0", "k", { location: "eastus" }));
      expect(error).toMatchObject({ code: "ForeignHost" });
      expect(gateway.leaked).toEqual([]);
    },
  );
});

describe("a login service that refers to another host", () => {
  test("a login service that refers to another host for tokens gets no secret there, and the error names both", async () => {
    await using gateway = await openGateway();
    gateway.answer(({ pathname }) =>
      pathname.endsWith("/openid-configuration")
        ? json({
            issuer: `${gateway.origin}/adfs`,
            authorization_endpoint: `${gateway.elsewhere}/authorize`,
            token_endpoint: `${gateway.elsewhere}/token`,
            jwks_uri: `${gateway.elsewhere}/keys`,
          })
        : undefined,
    );
    const { network } = await gateway.clients();
    const error = await errorOf(Array.fromAsync(network.loadBalancers.list("rg0")));
    expect(messageOf(error)).toContain(
      `the login service ${new URL(gateway.origin).host} refers to ${new URL(gateway.elsewhere).host}; no secret is sent to another host`,
    );
    expect(gateway.leaked).toEqual([]);
  });

  test("a login service that refers to another host without TLS gets no secret there", async () => {
    await using gateway = await openGateway();
    const plain = gateway.origin.replace("https:", "http:");
    gateway.answer(({ pathname }) =>
      pathname.endsWith("/openid-configuration")
        ? json({
            issuer: `${gateway.origin}/adfs`,
            authorization_endpoint: `${plain}/authorize`,
            token_endpoint: `${plain}/token`,
            jwks_uri: `${plain}/keys`,
          })
        : undefined,
    );
    const { network } = await gateway.clients();
    const error = await errorOf(Array.fromAsync(network.loadBalancers.list("rg0")));
    expect(messageOf(error)).toContain("no secret is sent to another host");
  });
});

describe("a list of ARM without an end", () => {
  test.each(["itself", "another page and back"])(
    "a list of ARM without an end whose next page is %s fails",
    async (how) => {
      await using gateway = await openGateway();
      gateway.answer((url, method) => {
        if (!isList(url, method)) return undefined;
        const other = new URL(url);
        if (how !== "itself") other.searchParams.set("page", url.searchParams.get("page") === "2" ? "1" : "2");
        // Not the last key.
        return json({ value: [], nextLink: other.href, ...(how === "itself" && { count: 0 }) });
      });
      const error = await listed(gateway);
      expect(messageOf(error)).toContain("/loadBalancers: its next page is one that was read before");
      expect(gateway.requests.filter((request) => request.endsWith("/loadBalancers")).length).toBeLessThan(5);
    },
  );

  test.each([
    ["ever new pages fails after 5,000", "5000 pages", 5_000, (page: number) => [balancer(`"nextLink" of ${page}`)]],
    [
      "pages without an item fails after 100 of them in a row",
      "100 empty pages in a row",
      151,
      (page: number) => (page === 50 ? [balancer("lb-0")] : []),
    ],
  ] as const)("a list of ARM without an end of %s", async (_what, problem, pages, itemsOf) => {
    await using gateway = await openGateway();
    let page = 0;
    gateway.answer((url, method) => {
      if (!isList(url, method)) return undefined;
      page += 1;
      const next = new URL(url);
      next.searchParams.set("page", `${page}`);
      return json({ value: itemsOf(page), nextLink: next.href });
    });
    expect(messageOf(await listed(gateway))).toContain(`/loadBalancers: it has more than ${problem}`);
    expect(page).toBe(pages);
  });

  test("a list of ARM whose last page comes after 100 empty ones is complete", async () => {
    await using gateway = await openGateway();
    gateway.answer((url, method) => {
      if (!isList(url, method)) return undefined;
      const page = Number(url.searchParams.get("page") ?? "0");
      const next = new URL(url);
      next.searchParams.set("page", `${page + 1}`);
      return page < 100 ? json({ value: [], nextLink: next.href }) : json({ value: [balancer("lb-0")] });
    });
    const { network } = await gateway.clients();
    expect(await Array.fromAsync(network.loadBalancers.list("rg0"), ({ name }) => name)).toEqual(["lb-0"]);
  });

  test("does not count pages of lists that were read before", async () => {
    await using gateway = await openGateway();
    gateway.answer((url, method) => {
      if (!isList(url, method)) return undefined;
      const page = Number(url.searchParams.get("page") ?? "0");
      const next = new URL(url);
      next.searchParams.set("page", `${page + 1}`);
      return json({ value: [balancer(`lb-${page}`)], ...(page < 3 && { nextLink: next.href }) });
    });
    const { network } = await gateway.clients();
    const list = () => Array.fromAsync(network.loadBalancers.list("rg0"), ({ name }) => name);
    const all = ["lb-0", "lb-1", "lb-2", "lb-3"];
    expect(await Promise.all([list(), list(), list()])).toEqual([all, all, all]);
    expect(await list()).toEqual(all);
  });
});

describe("a reply of ARM", () => {
  const zeros = gzipSync(Buffer.alloc(256 * 2 ** 20, 32));
  const named = { value: [balancer("lb-ü")] };

  test("a reply of ARM that is compressed is read", async () => {
    await using gateway = await openGateway();
    gateway.answer((url, method) =>
      isList(url, method)
        ? new Response(gzipSync(JSON.stringify(named)), {
            headers: { "content-type": "application/json", "content-encoding": "gzip" },
          })
        : undefined,
    );
    const { network } = await gateway.clients();
    expect(await Array.fromAsync(network.loadBalancers.list("rg0"), ({ name }) => name)).toEqual(["lb-ü"]);
  });

  test("a reply of ARM of 256 MiB, compressed to a quarter of one, is refused without a retry and costs no such memory", async () => {
    await using gateway = await openGateway();
    gateway.answer((url, method) =>
      isList(url, method)
        ? new Response(zeros, { headers: { "content-type": "application/json", "content-encoding": "gzip" } })
        : undefined,
    );
    await gateway.clients();
    Bun.gc(true);
    const before = process.memoryUsage.rss();
    const error = await listed(gateway);
    expect(messageOf(error)).toContain("the reply has more than 32 MiB");
    expect((process.memoryUsage.rss() - before) / 2 ** 20).toBeLessThan(150);
    expect(gateway.requests.filter((request) => request.endsWith("/loadBalancers"))).toHaveLength(1);
  });

  test("a reply of ARM without an end is refused", async () => {
    await using gateway = await openGateway();
    const { promise: canceled, resolve } = Promise.withResolvers<void>();
    const chunk = new Uint8Array(2 ** 20).fill(32);
    gateway.answer((url, method) =>
      isList(url, method)
        ? new Response(
            new ReadableStream({
              pull: (controller) => controller.enqueue(chunk),
              cancel: () => resolve(),
            }),
            { headers: { "content-type": "application/json" } },
          )
        : undefined,
    );
    expect(messageOf(await listed(gateway))).toContain("the reply has more than 32 MiB");
    await canceled;
  });

  test("a reply of ARM that refuses with megabytes of text is an error of bounded length, which names the request", async () => {
    await using gateway = await openGateway();
    const long = "x".repeat(2 ** 21);
    const headers = { "x-ms-correlation-request-id": "c".repeat(2_000) };
    gateway.answer((url, method) =>
      isList(url, method) ? json({ error: { code: long, message: long } }, headers, 403) : undefined,
    );
    const error = await listed(gateway);
    expect(messageOf(error)).toContain("loadBalancers: 403");
    expect(messageOf(error).length).toBeLessThan(10_000);
    expect(error).toMatchObject({ status: 403, code: expect.stringMatching(/^x{128}$/u) });
  });

  test("a list of ARM that is broken in the middle is an error of bounded length", async () => {
    await using gateway = await openGateway();
    const text = `{"value":[${"x".repeat(2 ** 21)}],"more":{}}`;
    gateway.answer((url, method) =>
      isList(url, method) ? new Response(text, { headers: { "content-type": "application/json" } }) : undefined,
    );
    expect(messageOf(await listed(gateway)).length).toBeLessThan(40_000);
  });

  test("a reply of ARM in another encoding than the one asked for is an error", async () => {
    await using gateway = await openGateway();
    gateway.answer((url, method) =>
      isList(url, method)
        ? new Response(brotliCompressSync(JSON.stringify(named)), { headers: { "content-encoding": "br" } })
        : undefined,
    );
    expect(messageOf(await listed(gateway))).toContain("the reply is encoded as br, which was not requested");
  });
});
