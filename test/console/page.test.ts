import { expect, setDefaultTimeout, test } from "bun:test";

import { axeFindings, untilText } from "./browser.ts";
import { SandboxPages } from "./sandbox-pages.ts";

setDefaultTimeout(60_000);

const pages = new SandboxPages();

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

test.each(views)(
  "the view %s asks no other origin, breaks no policy, and axe finds nothing: light and wide, dark and 360 px wide",
  async (path, text) => {
    const { page, complaints } = await pages.visit(path);
    await untilText(page, text);
    await untilText(page, "Live");
    expect(await axeFindings(page)).toEqual([]);
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
    await page.setViewport({ width: 360, height: 640 });
    expect(await axeFindings(page)).toEqual([]);
    expect(Number(await page.evaluate("document.documentElement.scrollWidth"))).toBeLessThanOrEqual(360);
    expect(await page.evaluate("getComputedStyle(document.body).backgroundColor")).toBe("rgb(13, 17, 23)");
    await page.emulateMediaType("print");
    expect(await page.evaluate("getComputedStyle(document.querySelector('nav')).display")).toBe("none");
    expect(complaints).toEqual([]);
  },
);

test("a reader without a pointer comes to every view, and each move lands on its heading", async () => {
  const { page } = await pages.visit("overview");
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

test("a write shows its outcome without scrolling on a wide screen, and the end of a long path", async () => {
  const { page } = await pages.visit("services/default/web");
  await page.setViewport({ width: 1280, height: 800 });
  await untilText(page, "publicIPAddresses/");
  const overflow = "((one) => one.scrollWidth - one.clientWidth)(document.querySelector('[aria-label=Writes]'))";
  expect(await page.evaluate(overflow)).toBe(0);
  await page.goto(new URL("writes?filter=publicIPAddresses", page.url().split("services")[0]).href);
  await untilText(page, "publicIPAddresses/");
  expect(await page.evaluate(isEndVisible)).toBe(true);
});

test("a list is filtered and sorted by the keyboard, and its address says how", async () => {
  const { page } = await pages.visit("services");
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

test("the page is not shown in a frame of another site", async () => {
  using outer = Bun.serve({
    port: 0,
    fetch: () =>
      new Response(`<iframe src="${pages.sandbox.consoleUrl}"></iframe>`, { headers: { "Content-Type": "text/html" } }),
  });
  const page = await pages.browser.newPage();
  await page.goto(`http://127.0.0.1:${outer.port}/`);
  const [, frame] = page.frames();
  expect(await frame?.evaluate("document.body.innerText").catch(() => "")).not.toContain("Overview");
  await page.close();
});

/** The last character of the path lies within its cell, and the first one does not. */
const isEndVisible = `(() => {
  const cell = document.querySelector("td.path");
  const text = cell.querySelector("bdi").firstChild;
  const edges = (offset) => {
    const range = document.createRange();
    range.setStart(text, offset);
    range.setEnd(text, offset + 1);
    return range.getBoundingClientRect();
  };
  const box = cell.getBoundingClientRect();
  return edges(text.length - 1).right <= box.right && edges(0).left < box.left;
})()`;
