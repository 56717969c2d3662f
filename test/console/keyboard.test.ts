import { expect, setDefaultTimeout, test } from "bun:test";

import type { Page } from "puppeteer-core";

import { untilText } from "./browser.ts";
import { SandboxPages } from "./sandbox-pages.ts";

setDefaultTimeout(240_000);

const pages = new SandboxPages();

const views: readonly (readonly [title: string, text: string])[] = [
  ["Overview", "In order"],
  ["Leadership", "became leader"],
  ["Controllers", "Work queues"],
  ["Services", "web"],
  ["Nodes", "vmss0000000"],
  ["Cloud", "Slow writes"],
  ["Writes", "publicIPAddresses/"],
  ["Plan", "Nothing to change"],
  ["Runbook", "CloudRemovalsHeld"],
];

const focused = async (page: Page): Promise<string> => String(await page.evaluate("document.activeElement.innerText"));

/** Presses Tab until the focus is on what has this text; the error names where it went. */
async function tabTo(page: Page, text: string): Promise<void> {
  const passed: string[] = [];
  while (passed.length < 60) {
    await page.keyboard.press("Tab");
    const now = (await focused(page)).trim();
    if (now === text) return;
    passed.push(now);
  }
  throw new Error(`Tab does not reach ${text}, but ${passed.join(" | ")}`);
}

/** What the Tab key stops at, from the top: its place among all that can be used, and whether a ring shows it. */
async function stops(page: Page): Promise<readonly string[]> {
  const found: string[] = [];
  await page.focus(".skip");
  while (found.length < 300) {
    const stop = await page.evaluate(`(() => {
      const one = document.activeElement;
      if (one === document.body) return "end";
      const usable = [...document.querySelectorAll(${JSON.stringify(usable)})];
      const { outlineStyle, outlineWidth } = getComputedStyle(one);
      return outlineStyle === "solid" && outlineWidth === "3px" ? String(usable.indexOf(one)) : "no ring: " + one.outerHTML;
    })()`);
    if (stop === "end") return found;
    found.push(String(stop));
    await page.keyboard.press("Tab");
  }
  return found;
}

const usable = "a[href], button:enabled, input, summary, [role=region]";

test("the Tab key comes to every view, and in each to all that can be used, in order, with a ring, and out again", async () => {
  const { page, complaints } = await pages.visit("writes");
  for (const [title, text] of views) {
    await page.focus(".skip");
    await tabTo(page, title);
    await page.keyboard.press("Enter");
    await untilText(page, text, 30_000);
    expect(await page.evaluate("document.activeElement.tagName")).toBe("H1");
    expect(
      await page.$$eval("nav [aria-current=page]", (links) => links.map(({ textContent }) => textContent)),
    ).toEqual([title]);
    const count = Number(await page.evaluate(`document.querySelectorAll(${JSON.stringify(usable)}).length`));
    expect([title, ...(await stops(page))]).toEqual([
      title,
      ...Array.from({ length: count }, (_, index) => `${index}`),
    ]);
  }
  expect(complaints).toEqual([]);
});

test("a reader without a pointer skips to a list, filters and sorts it, opens a row, folds its tree, and comes back", async () => {
  const { page } = await pages.visit("services");
  await untilText(page, "web");
  await page.keyboard.press("Tab");
  expect(await focused(page)).toBe("Skip to content");
  expect(await page.evaluate("document.activeElement.getBoundingClientRect().left >= 0")).toBe(true);
  await page.keyboard.press("Enter");
  await tabTo(page, "JSON");
  await page.keyboard.press("Tab");
  await page.keyboard.type("default");
  await untilText(page, "2 of 2");
  await tabTo(page, "Service");
  await page.keyboard.press("Enter");
  await page.keyboard.press("Enter");
  await page.waitForSelector("th[aria-sort=descending]");
  await page.keyboard.press("Enter");
  await page.waitForSelector("th[aria-sort=ascending]");
  await page.keyboard.press("Enter");
  await page.waitForSelector("th[aria-sort=descending]");
  expect(page.url()).toEndWith("/ui/services?filter=default&sort=-name");
  await page.waitForFunction("document.querySelector('tbody a').innerText === 'web'");
  await tabTo(page, "web");
  await page.keyboard.press("Enter");
  await untilText(page, "load balancer kubernetes");
  expect([await focused(page), await page.title()]).toEqual([
    "Service default/web",
    "default/web · cloud-controller-host",
  ]);
  await tabTo(page, "load balancer kubernetes");
  await page.keyboard.press("Enter");
  expect(await untilText(page, "load balancer kubernetes")).not.toContain("pool kubernetes");
  await page.goBack();
  await page.waitForSelector("th[aria-sort=descending]");
  expect(page.url()).toEndWith("/ui/services?filter=default&sort=-name");
  expect(await page.evaluate("document.querySelector('#filter').value")).toBe("default");
  expect([await focused(page), await page.title()]).toEqual(["Services", "Services · cloud-controller-host"]);
});
