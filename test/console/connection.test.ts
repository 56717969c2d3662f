import { describe, expect, setDefaultTimeout, test } from "bun:test";

import { eventually } from "cloud-controller-host/sdk/testing";

import type { Loopback } from "../../host/console/loopback.ts";
import { createService, deleteService } from "../kit/sandbox-services.ts";
import { untilText } from "./browser.ts";
import { SandboxPages } from "./sandbox-pages.ts";

setDefaultTimeout(240_000);

const pages = new SandboxPages();

/** The limits of the page pass ten times as fast. */
const faster = "((set) => { window.setTimeout = (run, ms) => set(run, ms / 10); })(setTimeout)";

describe("the page", () => {
  let token: string | undefined;
  let loopback: Loopback;
  /** Streams of the latest server: those of one before need not have ended yet. */
  let liveStreams = new Set<AbortSignal>();
  const requested: string[] = [];
  const serve = (port: number): Loopback => {
    const own = new Set<AbortSignal>();
    liveStreams = own;
    return pages.serve(port, (send) => (path, headers, signal) => {
      requested.push(path);
      if (path.endsWith("/stream")) {
        own.add(signal);
        signal.addEventListener("abort", () => own.delete(signal));
      }
      if (token !== undefined) headers.set("Authorization", `Bearer ${token}`);
      return send(path, headers, signal);
    });
  };

  test("reports that its token is no longer accepted, and keeps its content", async () => {
    token = undefined;
    await using server = serve(0);
    const { page } = await pages.visit("services", server.url);
    await untilText(page, "web");
    token = "expired";
    await createService(pages.sandbox, "another");
    const text = await untilText(page, "The credentials are no longer valid");
    expect(text).toContain("web");
    expect(text).not.toContain("expired");
    await deleteService(pages.sandbox, "another");
  });

  test("says since when the host cannot be reached, and is live again without being loaded again", async () => {
    token = undefined;
    loopback = serve(0);
    const { page } = await pages.visit("services", loopback.url);
    await untilText(page, "Live");
    await page.evaluate("window.sameDocument = true");
    await loopback[Symbol.asyncDispose]();
    await untilText(page, "Disconnected; connecting again since");
    loopback = serve(Number(new URL(loopback.url).port));
    await untilText(page, "Live");
    expect(await page.evaluate("window.sameDocument")).toBe(true);
    await loopback[Symbol.asyncDispose]();
  });

  test("keeps its content through an hour without the host, shows since when, and then what has changed", async () => {
    token = undefined;
    const before = serve(0);
    const { page } = await pages.visit("services", before.url);
    await untilText(page, "web");
    await untilText(page, "● Live");
    await page.evaluateOnNewDocument(faster);
    await page.reload();
    await untilText(page, "● Live");
    await before[Symbol.asyncDispose]();
    await untilText(page, "Disconnected; connecting again since");
    // Longer than a stream may be silent.
    await Bun.sleep(4_000);
    await page.evaluate("((now) => { Date.now = () => now() + 3_600_000; })(Date.now)");
    expect(await untilText(page, /Disconnected; connecting again since [^·]*\(1 hour ago\)/u)).toContain("web");
    await createService(pages.sandbox, "meanwhile");
    await using again = serve(Number(new URL(before.url).port));
    await untilText(page, "● Live");
    await untilText(page, "meanwhile");
    expect(page.url()).toStartWith(again.url);
    await deleteService(pages.sandbox, "meanwhile");
  });

  test("is not live on a stream that is silent without having ended, and reads on a timer", async () => {
    token = undefined;
    let says = ":\n\n";
    let streams = 0;
    await using server = pages.serve(0, (send) => async (path, headers, signal) => {
      if (!path.endsWith("/stream")) return send(path, headers, signal);
      streams += 1;
      const body = new ReadableStream({
        async pull(controller) {
          controller.enqueue(new TextEncoder().encode(says));
          await Bun.sleep(500);
        },
      });
      return new Response(body, { headers: { "Content-Type": "text/event-stream" } });
    });
    const { page } = await pages.visit("runbook", server.url);
    await page.evaluateOnNewDocument(faster);
    await page.goto(new URL("services", server.url).href);
    await untilText(page, "● Live");
    await untilText(page, "Not live; read every 10 seconds");
    await createService(pages.sandbox, "unheard");
    await untilText(page, "unheard");
    await eventually("it tries another stream", () => streams > 2);
    says = "data: {}\n\n";
    await untilText(page, "● Live");
    const before = streams;
    await Bun.sleep(5_000);
    expect(await untilText(page, "● Live", 0)).toContain("unheard");
    expect(streams).toBe(before);
    await deleteService(pages.sandbox, "unheard");
  });

  test("reads on a timer when a stream has ended and the next one is accepted but not answered", async () => {
    token = undefined;
    let streams = 0;
    const closing = new AbortController();
    await using server = pages.serve(0, (send) => async (path, headers, signal) => {
      if (!path.endsWith("/stream")) return send(path, headers, signal);
      streams += 1;
      if (streams > 1) await new Promise((resolve) => closing.signal.addEventListener("abort", resolve));
      return new Response("retry: 100\ndata: {}\n\n", { headers: { "Content-Type": "text/event-stream" } });
    });
    const { page } = await pages.visit("runbook", server.url);
    await page.goto("about:blank");
    streams = 0;
    await page.evaluateOnNewDocument(faster);
    await page.goto(new URL("services", server.url).href);
    await untilText(page, "Disconnected; connecting again since");
    await untilText(page, "Not live; read every 10 seconds");
    await createService(pages.sandbox, "unanswered");
    await untilText(page, "unanswered");
    closing.abort();
    await deleteService(pages.sandbox, "unanswered");
  });

  test("says in a sentence that the host answers 503, and is whole again by itself: with its content or without it", async () => {
    let refusal: string | undefined;
    await using server = pages.serve(0, (send) => async (path, headers, signal) => {
      if (refusal === undefined || path.endsWith("/stream") || !path.startsWith("/ui/api/"))
        return send(path, headers, signal);
      return new Response(refusal, { status: 503, headers: { "Content-Type": "text/plain" } });
    });
    const { page } = await pages.visit("services/default/web", server.url);
    await untilText(page, "● Live");
    await untilText(page, "load balancer kubernetes");
    refusal = "no healthy upstream\n";
    await page.locator("text/Runbook").click();
    const text = await untilText(
      page,
      "The host answered 503: no healthy upstream. The page asks again every 10 seconds.",
    );
    expect(text).toContain("● Live");
    refusal = undefined;
    expect(await untilText(page, "CloudRemovalsHeld")).not.toContain("503");
    await page.locator("text/Services").click();
    await untilText(page, "web");
    refusal = `<html>${"x".repeat(5_000)}`;
    await createService(pages.sandbox, "unread");
    const kept = await untilText(
      page,
      /The host answered 503: <html>x{100,400}… The page asks again[^]*Shown is what it answered at/u,
    );
    expect(kept).toContain("web");
    refusal = undefined;
    expect(await untilText(page, "unread")).not.toContain("503");
    await deleteService(pages.sandbox, "unread");
  });

  test("works in a tenth tab, although a browser has six connections: some read on a timer, and are live once others leave", async () => {
    token = undefined;
    await using server = serve(0);
    for (let tab = 0; tab < 10; tab++) {
      const { page } = await pages.visit("services", server.url);
      await untilText(page, "web");
      await untilText(page, /● Live|Not live; read every 10 seconds/u);
    }
    const [leaving, staying] = [pages.open.slice(0, 6), pages.open.slice(6)];
    for (const { page } of staying) expect(await untilText(page, "web")).toContain("Not live; read every 10 seconds");
    expect(liveStreams.size).toBe(4);
    pages.open = staying;
    await Promise.all(leaving.map(({ page }) => page.close()));
    for (const { page } of staying) await untilText(page, "● Live", 30_000);
  });

  test("holds no stream while its tab is hidden, and shows what has changed once it is visible", async () => {
    token = undefined;
    await using server = serve(0);
    const { page, complaints } = await pages.visit("services", server.url);
    await untilText(page, "● Live");
    const become = (state: string): Promise<unknown> =>
      page.evaluate(
        `Object.defineProperty(document, "visibilityState", { value: "${state}", configurable: true }); document.dispatchEvent(new Event("visibilitychange"))`,
      );
    await become("hidden");
    await eventually("its stream has ended", () => liveStreams.size === 0, 10_000);
    const before = requested.length;
    await createService(pages.sandbox, "unseen");
    await Bun.sleep(3_000);
    expect([requested.slice(before), liveStreams.size]).toEqual([[], 0]);
    await become("visible");
    await untilText(page, "unseen");
    await untilText(page, "● Live");
    expect([liveStreams.size, complaints]).toEqual([1, []]);
    await deleteService(pages.sandbox, "unseen");
  });

  test("reads every view on a timer while 20 others are live, and is live once one of them has left", async () => {
    token = undefined;
    await using server = serve(0);
    const others = Array.from({ length: 20 }, () => new AbortController());
    const headers = { Authorization: `Bearer ${pages.sandbox.api.tokens.of("admin")}` };
    const tls = { rejectUnauthorized: false };
    const url = new URL("/ui/api/stream", pages.sandbox.host.url);
    const streams = await Promise.all(others.map(({ signal }) => fetch(url, { signal, headers, tls })));
    expect(streams.map(({ status }) => status)).toEqual(Array(20).fill(200));
    const { page } = await pages.visit("services", server.url);
    await untilText(page, "Not live; read every 10 seconds");
    await untilText(page, "web");
    await createService(pages.sandbox, "unannounced");
    expect(await untilText(page, "unannounced", 30_000)).toContain("Not live");
    expect(streams.map(({ bodyUsed }) => bodyUsed)).toEqual(Array(20).fill(false));
    for (const other of others) other.abort();
    await untilText(page, "● Live", 30_000);
    await deleteService(pages.sandbox, "unannounced");
  });
});
