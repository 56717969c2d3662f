import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { appendFile, readFile, writeFile } from "node:fs/promises";

import axe from "axe-core";
import type { Browser } from "puppeteer-core";

import { type Loopback, serveLoopback } from "../../host/console/loopback.ts";
import { openSandbox, type Sandbox } from "../../host/sandbox-host.ts";
import { freePort } from "../envtest/free-port.ts";
import { SandboxLab } from "../host/sandbox-lab.ts";
import { createService, deleteService, until, untilReady } from "../kit/sandbox-services.ts";
import { openBrowser, untilText, type WatchedPage, watchedPage } from "./browser.ts";

setDefaultTimeout(60_000);

let sandbox: Sandbox;
let browser: Browser;
let open: WatchedPage[] = [];

const views: readonly (readonly [path: string, text: string])[] = [
  ["overview", "In order"],
  ["leadership", "became leader"],
  ["controllers", "service-lb-controller"],
  ["services", "web"],
  ["services/default/web", "load balancer kubernetes"],
  ["nodes", "vmss0000000"],
  ["nodes/vmss0000000", "provider ID"],
  ["cloud", "load balancer rules, kubernetes"],
  ["writes", "PUT"],
  ["plan", "Nothing to change"],
  ["runbook?row=CloudControllerHostThrottled", "Which other clients use the subscription?"],
];

beforeAll(async () => {
  [sandbox, browser] = await Promise.all([openSandbox(), openBrowser()]);
  await createService(sandbox, "web");
  await untilReady(sandbox, "web");
});

afterAll(async () => {
  await browser.close();
  await sandbox[Symbol.asyncDispose]();
});

afterEach(async () => {
  await Promise.all(open.map(({ page }) => page.close()));
  open = [];
});

async function visit(path: string, base = sandbox.consoleUrl ?? ""): Promise<WatchedPage> {
  const watched = await watchedPage(browser, new URL(base).origin);
  open.push(watched);
  await watched.page.goto(new URL(path, base).href, { waitUntil: "domcontentloaded" });
  return watched;
}

/** What axe finds, in words. */
async function axeFindings({ page }: WatchedPage): Promise<readonly string[]> {
  await page.evaluate(axe.source);
  const found = await page.evaluate(
    "axe.run(document).then(({ violations }) => violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ html }) => html).join(' ')))",
  );
  return Array.isArray(found) ? found.map(String) : ["axe did not answer"];
}

test.each(views)(
  "the view %s asks no other origin, breaks no policy, and axe finds nothing: light and wide, dark and 360 px wide",
  async (path, text) => {
    const watched = await visit(path);
    const { page, complaints } = watched;
    await untilText(page, text);
    await untilText(page, "Live");
    expect(await axeFindings(watched)).toEqual([]);
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
    await page.setViewport({ width: 360, height: 640 });
    expect(await axeFindings(watched)).toEqual([]);
    expect(Number(await page.evaluate("document.documentElement.scrollWidth"))).toBeLessThanOrEqual(360);
    expect(await page.evaluate("getComputedStyle(document.body).backgroundColor")).toBe("rgb(13, 17, 23)");
    await page.emulateMediaType("print");
    expect(await page.evaluate("getComputedStyle(document.querySelector('nav')).display")).toBe("none");
    expect(complaints).toEqual([]);
  },
);

describe("the overview", () => {
  test("names a failing Service with its cause as it fails, and nothing once it is gone", async () => {
    const { page, complaints } = await visit("overview");
    await untilText(page, "Nothing is wrong");
    await createService(sandbox, "bad", { "service.beta.kubernetes.io/azure-dns-label-name": "-" });
    const text = await untilText(page, "Service fails");
    expect(text).toContain('azure-dns-label-name: "-" is not valid');
    expect(text).toContain("What to do:");
    await page.locator("text/Runbook: CloudLoadBalancerSyncFailing").click();
    await untilText(page, "kubectl get events -A --field-selector reason=SyncLoadBalancerFailed");
    await page.goBack();
    await page.locator("text/Show services/default/bad").click();
    await untilText(page, "SyncLoadBalancerFailed");
    expect(page.url()).toEndWith("/ui/services/default/bad");
    await page.goBack();
    await deleteService(sandbox, "bad");
    await untilText(page, "Nothing is wrong");
    expect(complaints).toEqual([]);
  });

  test("names a refused reload with the key, until the config is fixed", async () => {
    const { page } = await visit("overview");
    const before = await readFile(sandbox.files.cloudConfig, "utf8");
    await appendFile(sandbox.files.cloudConfig, '\nvmType: "unknown"\n');
    expect(await untilText(page, "Reload refused")).toContain("vmType");
    await page.locator("text/Leadership").click();
    const timeline = await untilText(page, "ReloadRefused");
    expect(timeline).toMatch(/✖ refused\s+vmType/u);
    await writeFile(sandbox.files.cloudConfig, before);
    await page.locator("text/Overview").click();
    await untilText(page, "Nothing is wrong", 30_000);
  });
});

test("the plan shows what would be written now, with its cause and its fields, and is made again when asked", async () => {
  sandbox.cloud?.fail?.({ method: "PUT", path: "loadBalancers", status: 403, forMs: 120_000 });
  await createService(sandbox, "planned");
  const watched = await visit("plan");
  const { page, complaints } = watched;
  const again = async (): Promise<boolean> => {
    await page.evaluate("document.querySelector('main button:enabled')?.click()");
    return String(await page.evaluate("document.body.innerText")).includes("Because of Service default/planned");
  };
  await until("the plan has it", again, 60_000);
  await page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true");
  await untilText(page, "frontendIPConfigurations[");
  expect(await untilText(page, "change Service default/planned")).not.toContain("could not be planned");
  expect(await axeFindings(watched)).toEqual([]);
  await page.setViewport({ width: 360, height: 640 });
  expect(Number(await page.evaluate("document.documentElement.scrollWidth"))).toBeLessThanOrEqual(360);
  expect(complaints).toEqual([]);
  sandbox.cloud?.recover?.();
  await deleteService(sandbox, "planned");
});

test("a reader without a pointer comes to every view, and each move lands on its heading", async () => {
  const { page } = await visit("overview");
  await untilText(page, "In order");
  const focused = async (): Promise<string> => String(await page.evaluate("document.activeElement.innerText"));
  await page.keyboard.press("Tab");
  expect(await focused()).toBe("Skip to content");
  for (const title of ["Overview", "Leadership", "Controllers", "Services"]) {
    await page.keyboard.press("Tab");
    expect(await focused()).toBe(title);
  }
  await page.keyboard.press("Enter");
  await untilText(page, "web");
  expect(await focused()).toBe("Services");
  expect(String(await page.evaluate("document.activeElement.tagName"))).toBe("H1");
  expect(await page.title()).toBe("Services · cloud-controller-host");
  for (let presses = 0; presses < 20 && (await focused()) !== "web"; presses++) await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await untilText(page, "load balancer kubernetes");
});

test("a list is filtered and sorted by the keyboard, and its address says how", async () => {
  const { page } = await visit("services");
  await untilText(page, "web");
  await page.type("#filter", "kubern");
  const text = await untilText(page, "1 of 2");
  expect(text).not.toContain("web");
  expect(page.url()).toEndWith("/ui/services?filter=kubern");
  await page.reload();
  await untilText(page, "1 of 2");
  await page.locator("th button").click();
  expect(await page.$$eval("th[aria-sort=ascending]", (headings) => headings.length)).toBe(1);
});

describe("the page", () => {
  let token: string | undefined;
  let loopback: Loopback;
  /** Streams of the latest server: those of one before need not have ended yet. */
  let liveStreams = new Set<AbortSignal>();
  const requested: string[] = [];
  const serve = (port: number): Loopback => {
    const own = new Set<AbortSignal>();
    liveStreams = own;
    return serveLoopback(port, (path, headers, signal) => {
      requested.push(path);
      if (path.endsWith("/stream")) {
        own.add(signal);
        signal.addEventListener("abort", () => own.delete(signal));
      }
      headers.set("Authorization", `Bearer ${token ?? sandbox.api.tokens.of("admin")}`);
      return fetch(`${sandbox.host.url}${path}`, { headers, signal, tls: { rejectUnauthorized: false } });
    });
  };

  test("reports that its token is no longer accepted, and keeps its content", async () => {
    token = undefined;
    await using server = serve(0);
    const { page } = await visit("services", server.url);
    await untilText(page, "web");
    token = "expired";
    await createService(sandbox, "another");
    const text = await untilText(page, "The credentials are no longer valid");
    expect(text).toContain("web");
    expect(text).not.toContain("expired");
    await deleteService(sandbox, "another");
  });

  test("says since when the host cannot be reached, and is live again without being loaded again", async () => {
    token = undefined;
    loopback = serve(0);
    const { page } = await visit("services", loopback.url);
    await untilText(page, "Live");
    await page.evaluate("window.sameDocument = true");
    await loopback[Symbol.asyncDispose]();
    await untilText(page, "Disconnected; connecting again since");
    loopback = serve(Number(new URL(loopback.url).port));
    await untilText(page, "Live");
    expect(await page.evaluate("window.sameDocument")).toBe(true);
    await loopback[Symbol.asyncDispose]();
  });

  test("works in a tenth tab, although a browser has six connections: some read on a timer, and are live once others leave", async () => {
    token = undefined;
    await using server = serve(0);
    for (let tab = 0; tab < 10; tab++) {
      const { page } = await visit("services", server.url);
      await untilText(page, "web");
      await untilText(page, /● Live|Not live; read every 10 seconds/u);
    }
    const [leaving, staying] = [open.slice(0, 6), open.slice(6)];
    for (const { page } of staying) expect(await untilText(page, "web")).toContain("Not live; read every 10 seconds");
    expect(liveStreams.size).toBe(4);
    open = staying;
    await Promise.all(leaving.map(({ page }) => page.close()));
    for (const { page } of staying) await untilText(page, "● Live", 30_000);
  });

  test("holds no stream while its tab is hidden, and shows what has changed once it is visible", async () => {
    token = undefined;
    await using server = serve(0);
    const { page, complaints } = await visit("services", server.url);
    await untilText(page, "● Live");
    const become = (state: string): Promise<unknown> =>
      page.evaluate(
        `Object.defineProperty(document, "visibilityState", { value: "${state}", configurable: true }); document.dispatchEvent(new Event("visibilitychange"))`,
      );
    await become("hidden");
    await until("its stream has ended", () => liveStreams.size === 0, 10_000);
    const before = requested.length;
    await createService(sandbox, "unseen");
    await Bun.sleep(3_000);
    expect([requested.slice(before), liveStreams.size]).toEqual([[], 0]);
    await become("visible");
    await untilText(page, "unseen");
    await untilText(page, "● Live");
    expect([liveStreams.size, complaints]).toEqual([1, []]);
    await deleteService(sandbox, "unseen");
  });

  test("reads every view on a timer while 20 others are live, and is live once one of them has left", async () => {
    token = undefined;
    await using server = serve(0);
    const others = Array.from({ length: 20 }, () => new AbortController());
    const headers = { Authorization: `Bearer ${sandbox.api.tokens.of("admin")}` };
    const tls = { rejectUnauthorized: false };
    const url = new URL("/ui/api/stream", sandbox.host.url);
    const streams = await Promise.all(others.map(({ signal }) => fetch(url, { signal, headers, tls })));
    expect(streams.map(({ status }) => status)).toEqual(Array(20).fill(200));
    const { page } = await visit("services", server.url);
    await untilText(page, "Not live; read every 10 seconds");
    await untilText(page, "web");
    await createService(sandbox, "unannounced");
    expect(await untilText(page, "unannounced", 30_000)).toContain("Not live");
    expect(streams.map(({ bodyUsed }) => bodyUsed)).toEqual(Array(20).fill(false));
    for (const other of others) other.abort();
    await untilText(page, "● Live", 30_000);
    await deleteService(sandbox, "unannounced");
  });

  test("is not shown in a frame of another site", async () => {
    using outer = Bun.serve({
      port: 0,
      fetch: () =>
        new Response(`<iframe src="${sandbox.consoleUrl}"></iframe>`, { headers: { "Content-Type": "text/html" } }),
    });
    const page = await browser.newPage();
    await page.goto(`http://127.0.0.1:${outer.port}/`);
    const [, frame] = page.frames();
    expect(await frame?.evaluate("document.body.innerText").catch(() => "")).not.toContain("Overview");
    await page.close();
  });
});

test("a page follows a hand-over: a standby names the leader, and says that it leads once it does", async () => {
  await using lab = await SandboxLab.open();
  const start = async () => (await lab.host([`--secure-port=${freePort()}`, ...quick])).host;
  const one = await start();
  await until("the first leads", () => one.status.leading);
  const other = await start();
  await using server = serveLoopback(0, (path, headers, signal) => {
    headers.set("Authorization", `Bearer ${lab.api.tokens.of("admin")}`);
    return fetch(`${other.url}${path}`, { headers, signal, tls: { rejectUnauthorized: false } });
  });
  const { page, complaints } = await visit("overview", server.url);
  await untilText(page, `This replica, ${other.status.identity}, stands by. ${one.status.identity} leads`);
  one.stop();
  await one.finished;
  const text = await untilText(page, `held by ${other.status.identity}`, 30_000);
  expect(text).not.toContain("stands by");
  await page.locator("text/Leadership").click();
  await untilText(page, "became leader");
  expect(complaints).toEqual([]);
});

const quick = [
  "--leader-elect-lease-duration=3s",
  "--leader-elect-renew-deadline=2s",
  "--leader-elect-retry-period=500ms",
];
