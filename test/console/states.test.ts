import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { appendFile } from "node:fs/promises";

import { kinds } from "cloud-controller-host/sdk";
import type { Browser } from "puppeteer-core";

import type { RunningHost } from "../../host/host.ts";
import { SandboxLab } from "../host/sandbox-lab.ts";
import { joinNodes } from "../kit/azure.ts";
import { axeFindings, openBrowser, untilText, type WatchedPage, watchedPage } from "./browser.ts";
import { consoleOf, leader, start, stop } from "./leader.ts";

setDefaultTimeout(240_000);

let browser: Browser;

beforeAll(async () => {
  browser = await openBrowser();
});

afterAll(() => browser.close());

/** The text of each view. */
type Texts = Readonly<Record<(typeof views)[number], string | RegExp>>;

const node = "vmss0000000";
const views = [
  "overview",
  "leadership",
  "controllers",
  "services",
  "services/default/web",
  "nodes",
  `nodes/${node}`,
  "cloud",
  "writes",
  "plan",
  "runbook",
] as const;

const always = {
  overview: "In order",
  leadership: "Locks",
  controllers: "service-lb",
  services: "web",
  "services/default/web": "Service default/web",
  nodes: node,
  [`nodes/${node}`]: "provider ID",
  cloud: "azure",
  writes: "Writes",
  plan: "What a host with these flags would write now",
  runbook: "CloudRemovalsHeld",
} as const satisfies Texts;

/** Opens every view in a page of its own, and waits until each has its text. */
async function openViews(url: string, texts: Texts): Promise<readonly WatchedPage[]> {
  return Promise.all(
    views.map(async (view) => {
      // Pages of one context share six connections.
      const watched = await watchedPage(await browser.createBrowserContext(), url);
      await watched.page.goto(new URL(`/ui/${view}`, url).href, { waitUntil: "domcontentloaded" });
      await untilText(watched.page, texts[view], 90_000);
      return watched;
    }),
  );
}

/** Each page is sound: wide and light, narrow and dark, with the keyboard alone, and its console is empty. */
async function expectSound(pages: readonly WatchedPage[]): Promise<void> {
  for (const [index, { page, complaints }] of pages.entries()) {
    const view = views[index];
    await page.bringToFront();
    expect([view, ...(await axeFindings(page))]).toEqual([view]);
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
    await page.setViewport({ width: 360, height: 640 });
    expect([view, ...(await axeFindings(page))]).toEqual([view]);
    expect([view, Number(await page.evaluate("document.documentElement.scrollWidth")) <= 360]).toEqual([view, true]);
    expect([view, await page.evaluate(unreachable)]).toEqual([view, []]);
    await page.evaluate("document.activeElement?.blur()");
    await page.keyboard.press("Tab");
    expect([view, await page.evaluate("document.activeElement.textContent")]).toEqual([view, "Skip to content"]);
    expect([view, ...complaints]).toEqual([view]);
    await page.close();
  }
}

/** What a pointer can use and the Tab key does not reach. */
const unreachable =
  "[...document.querySelectorAll('a, button:enabled, input, summary')].filter((one) => one.tabIndex < 0 || (one.localName === 'a' && !one.href)).map((one) => one.outerHTML)";

interface State {
  /** Brings the cluster into it; resolves with the host whose pages are looked at. */
  readonly enter: (lab: SandboxLab) => Promise<RunningHost>;
  readonly texts: Partial<Texts>;
}

const dnsLabel = "service.beta.kubernetes.io/azure-dns-label-name";

const states: Readonly<Record<string, State>> = {
  "a failing Service": {
    async enter(lab) {
      const host = await leader(lab);
      await lab.admin.patch(kinds.Service, { namespace: "default", name: "web" }, "merge", {
        metadata: { annotations: { [dnsLabel]: "-" } },
      });
      return host;
    },
    texts: {
      overview: /Service fails[^]*Runbook: CloudLoadBalancerSyncFailing/u,
      services: /✖ failing[^]*is not valid/u,
      "services/default/web": /last error[^]*is not valid[^]*SyncLoadBalancerFailed/u,
      writes: "Service default/web (status)",
      plan: /Refused as they are[^]*is not valid/u,
    },
  },
  "a held removal": {
    async enter(lab) {
      await stop(await leader(lab));
      await appendFile(lab.azure.config, "loadBalancerName: other\n");
      return leader(lab);
    },
    texts: {
      overview: /Removals are held[^]*Since [^]*Show plan[^]*Runbook: CloudRemovalsHeld/u,
      services: /✖ failing[^]*would be removed/u,
      "services/default/web": /would be removed[^]*RemovalHeld/u,
      plan: "Removals that are held: no cause explains them",
    },
  },
  "a refused reload": {
    async enter(lab) {
      const host = await leader(lab);
      await appendFile(lab.azure.config, '\nvmType: "unknown"\n');
      return host;
    },
    texts: {
      overview: /Reload refused[^]*vmType[^]*Runbook: CloudControllerHostReloadRefused/u,
      leadership: /✖ refused\s+vmType[^]*ReloadRefused/u,
      plan: "The plan could not be made",
    },
  },
  "a throttled cloud": {
    async enter(lab) {
      const host = await leader(lab);
      lab.azure.simulator.failNext(
        { path: "/providers/" },
        { status: 429, headers: { "retry-after": "300" }, times: 1_000 },
      );
      await joinNodes(lab.admin, lab.azure, 1);
      return host;
    },
    texts: {
      overview: /Requests to the cloud are throttled[^]*Runbook: CloudControllerHostThrottled/u,
      cloud: "throttled for another",
    },
  },
  "a standby": {
    async enter(lab) {
      await leader(lab);
      return start(lab);
    },
    texts: {
      overview: /This replica, \S+, stands by\. \S+ leads/u,
      controllers: "standing by",
    },
  },
};

test.each(Object.entries(states))(
  "%s is shown by text in every view, which is sound: policy, axe, keyboard, dark and 360 px wide",
  async (_name, { enter, texts }) => {
    await using lab = await SandboxLab.open();
    await using server = consoleOf(lab, await enter(lab));
    await expectSound(await openViews(server.url, { ...always, ...texts }));
  },
);

test("an API server that answers 503 about the credentials is named by the page, which recovers on its own", async () => {
  const reason = /or the host could not ask the API server about them/u;
  await using lab = await SandboxLab.open();
  await using server = consoleOf(lab, await leader(lab));
  const { page } = await watchedPage(browser, server.url);
  await page.goto(new URL("/ui/controllers", server.url).href);
  await untilText(page, "✔ running");
  const fault = lab.api.faults.add({
    match: { resource: "tokenreviews" },
    effect: { status: 503, message: "not ready" },
    times: Number.POSITIVE_INFINITY,
  });
  // Decisions are kept for ten seconds.
  expect(await untilText(page, reason, 30_000)).toMatch(/Shown is what it answered at[^]*✔ running/u);
  await page.locator("text/Leadership").click();
  expect(await untilText(page, reason, 30_000)).not.toContain("Locks");
  fault.remove();
  expect(await untilText(page, "became leader", 30_000)).not.toMatch(reason);
  await untilText(page, "● Live", 30_000);
  await page.close();
});

test("every view follows a hand-over while it is looked at, and is sound afterwards", async () => {
  await using lab = await SandboxLab.open();
  const one = await leader(lab);
  const other = await start(lab);
  await using server = consoleOf(lab, other);
  const pages = await openViews(server.url, {
    ...always,
    overview: `This replica, ${other.status.identity}, stands by. ${one.status.identity} leads`,
  });
  await stop(one);
  const after: Partial<Texts> = {
    overview: new RegExp(`^(?![^]*stands by)[^]*held by ${other.status.identity}`, "u"),
    leadership: new RegExp(`${other.status.identity} \\(this replica\\)[^]*became leader`, "u"),
    controllers: "✔ running",
  };
  for (const [index, { page }] of pages.entries()) {
    const text = after[views[index] ?? "overview"];
    if (text !== undefined) await untilText(page, text, 60_000);
    await untilText(page, "● Live");
  }
  await expectSound(pages);
});
