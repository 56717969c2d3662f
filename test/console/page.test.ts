import { expect, setDefaultTimeout, test } from "bun:test";

import { kinds } from "cloud-controller-host/sdk";

import type { Sandbox } from "../../host/sandbox-host.ts";
import { createService } from "../kit/sandbox-services.ts";
import { axeFindings, untilText } from "./browser.ts";
import { SandboxPages } from "./sandbox-pages.ts";

setDefaultTimeout(240_000);

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

test("a write shows its outcome without scrolling on a wide screen, and the end of a long path", async () => {
  const causes = Array.from({ length: 5 }, (_, index) => `Service default/service-${index}`).join(", ");
  await using server = changed((answer) => answer.replaceAll('"causes":"Service default/web"', `"causes":"${causes}"`));
  const { page } = await pages.visit("services/default/web", server.url);
  await page.setViewport({ width: 1280, height: 800 });
  await untilText(page, "publicIPAddresses/");
  await untilText(page, "service-4");
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
  await page.type("#filter", "@");
  expect(await untilText(page, "0 of 2")).toContain("The filter matches none of the services.");
  await page.keyboard.press("Backspace");
  expect(await untilText(page, "1 of 2")).not.toContain("The filter matches none");
  await page.locator("th button").click();
  expect(await page.$$eval("th[aria-sort=ascending]", (headings) => headings.length)).toBe(1);
});

test("a link is followed within the page only by a plain click, to a view and not to JSON or another site", async () => {
  const { page } = await pages.visit("");
  await untilText(page, "In order");
  const followed = (selector: string, event: object): Promise<unknown> =>
    page.evaluate(`(() => {
      let isFollowed;
      addEventListener("click", (event) => { isFollowed = event.defaultPrevented; event.preventDefault(); }, { once: true });
      const event = new MouseEvent("click", { bubbles: true, cancelable: true, ...${JSON.stringify(event)} });
      document.querySelector(${JSON.stringify(selector)}).dispatchEvent(event);
      return isFollowed;
    })()`);
  const overview = "nav a[href='/ui/overview']";
  for (const event of [{ ctrlKey: true }, { metaKey: true }, { shiftKey: true }, { altKey: true }, { button: 1 }])
    expect([event, await followed(overview, event)]).toEqual([event, false]);
  expect(await followed("a[href$='format=json']", {})).toBe(false);
  expect(await followed(".skip", {})).toBe(false);
  await page.evaluate(
    `document.querySelector("nav").innerHTML += '<a id="out" href="https://other.test/ui/nodes"></a>'`,
  );
  expect(await followed("#out", {})).toBe(false);
  expect(await followed("main", {})).toBe(false);
  expect(await followed(overview, {})).toBe(true);
});

const taints = [{ key: "look-at-this", effect: "NoSchedule" }];

const changes: readonly (readonly [view: string, change: (sandbox: Sandbox) => unknown, text: string])[] = [
  ["nodes", ({ api }) => api.create(kinds.Node, { metadata: { name: "newcomer" }, spec: { taints } }), "newcomer"],
  [
    "nodes/vmss0000001",
    ({ api }) =>
      api.update(kinds.Node, { name: "vmss0000001" }, (node) => ({ ...node, spec: { ...node.spec, taints } })),
    "look-at-this",
  ],
  ["writes", (sandbox) => createService(sandbox, "seen"), "Service default/seen"],
];

test.each(changes)("a change is shown while it is looked at: %s", async (view, change, text) => {
  const { page } = await pages.visit(view);
  await untilText(page, "● Live");
  expect(await untilText(page, /vmss0000001|PUT/u)).not.toContain(text);
  await change(pages.sandbox);
  await untilText(page, text);
});

test("the filter's field shows the filter of the address, also after a link to the whole list", async () => {
  const { page } = await pages.visit("services?filter=kubern");
  await untilText(page, "1 of ");
  const field = "document.querySelector('#filter').value";
  expect(await page.evaluate(field)).toBe("kubern");
  await page.locator("nav a[href='/ui/services']").click();
  await untilText(page, "web");
  expect(await page.evaluate(field)).toBe("");
  await page.locator("text/not managed").click();
  await untilText(page, "1 of ");
  expect(await page.evaluate(field)).toBe("state:not managed");
  await page.goBack();
  expect(new URL(page.url()).search).toBe("?filter=kubern");
  await page.waitForFunction(`${field} === "kubern"`);
});

/** The console with other answers; those of its own page are as they are. */
const changed = (change: (answer: string, path: string) => string) =>
  pages.serve(0, (send) => async (path, headers, signal) => {
    const reply = await send(path, headers, signal);
    if (!path.startsWith("/ui/api/") || path.endsWith("/stream")) return reply;
    return new Response(change(await reply.text(), path), { headers: { "Content-Type": "application/json" } });
  });

test("an answer without a field, as a host of another version gives it, leaves the page in use", async () => {
  let isOther = true;
  await using server = changed((answer, path) =>
    isOther && path.endsWith("/leadership") ? answer.replace('"timeline"', '"older"') : answer,
  );
  const { page } = await pages.visit("leadership", server.url);
  expect(await untilText(page, "load the page again")).not.toContain("Locks");
  await page.locator("text/Services").click();
  await untilText(page, "web");
  isOther = false;
  await page.locator("text/Leadership").click();
  expect(await untilText(page, "became leader")).not.toContain("load the page again");
});

test("a view that fails as the leader becomes known is replaced whole", async () => {
  let opened = Promise.withResolvers<void>();
  await using server = pages.serve(0, (send) => async (path, headers, signal) => {
    if (path.endsWith("/leadership")) {
      await Promise.race([opened.promise, Bun.sleep(1_000)]);
      await Bun.sleep(10);
    }
    const reply = await send(path, headers, signal);
    if (path.endsWith("/stream")) opened.resolve();
    if (!path.endsWith("/api/leadership")) return reply;
    const answer = (await reply.text()).replace('"timeline"', '"older"');
    return new Response(answer, { headers: { "Content-Type": "application/json" } });
  });
  const { page } = await pages.visit("leadership", server.url);
  // Effects then run later than the answer comes, as in a busy browser.
  await page.evaluateOnNewDocument("globalThis.requestAnimationFrame = () => 0");
  opened = Promise.withResolvers();
  await page.reload({ waitUntil: "domcontentloaded" });
  expect(await untilText(page, "load the page again")).not.toContain("Locks");
});

test("a failing write and Service show the cloud's code in their lists, although the request is longer than a cell", async () => {
  const path = `/subscriptions/${"0".repeat(36)}/resourceGroups/rg0/providers/Microsoft.Network/loadBalancers/kubernetes`;
  const error = `ARM PUT ${path}: 403 AuthorizationFailed: not allowed`;
  await using server = changed((answer) => {
    const list = JSON.parse(answer);
    for (const row of list.rows) {
      Object.assign(row, "outcome" in row ? { outcome: `failed: 403 ${error}`, resource: path } : {});
      Object.assign(row, "cause" in row ? { cause: `failed to ensure load balancer: ${error}` } : {});
    }
    return JSON.stringify(list);
  });
  for (const [view, column] of [
    ["services", 3],
    ["writes", 4],
  ] as const) {
    const { page } = await pages.visit(view, server.url);
    await page.setViewport({ width: 1600, height: 800 });
    await untilText(page, "403 AuthorizationFailed");
    const visible = `(() => {
      const cell = document.querySelector("tbody tr:not(.space)").children[${column}];
      const text = [...cell.querySelectorAll("bdi")].at(-1).firstChild;
      const range = document.createRange();
      range.setStart(text, 0);
      range.setEnd(text, "403 AuthorizationFailed".length);
      return [range.toString(), range.getBoundingClientRect().right <= cell.getBoundingClientRect().right, cell.title.includes("${path}")];
    })()`;
    expect(await page.evaluate(visible)).toEqual(["403 AuthorizationFailed", true, true]);
  }
});

test("numbers are below the end of their heading, and on a narrow screen each cell is named by its own", async () => {
  const { page } = await pages.visit("controllers");
  await untilText(page, "Work queues");
  const table = "document.querySelector('[aria-label=\"Work queues\"] table')";
  const aligned = `[...${table}.rows].map((row) => getComputedStyle(row.cells[1]).textAlign)`;
  expect(new Set(await page.evaluate(aligned).then((found) => (Array.isArray(found) ? found : [])))).toEqual(
    new Set(["right"]),
  );
  await page.setViewport({ width: 360, height: 640 });
  const named = `[...${table}.tBodies[0].rows[0].cells].slice(0, 3).map((cell) => getComputedStyle(cell, "::before").content)`;
  expect(await page.evaluate(named)).toEqual(['"Queue: "', '"Depth: "', '"Retries: "']);
  const overflow = `${table}.parentElement.scrollWidth - ${table}.parentElement.clientWidth`;
  expect(await page.evaluate(overflow)).toBe(0);
});

test("a page in the dark is printed dark on white, with every cell whole", async () => {
  const { page } = await pages.visit("writes");
  await untilText(page, "publicIPAddresses/");
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
  await page.emulateMediaType("print");
  expect(await page.evaluate("getComputedStyle(document.body).backgroundColor")).toBe("rgb(255, 255, 255)");
  const cut =
    "[...document.querySelectorAll('.fixed td')].filter((cell) => cell.scrollWidth > cell.clientWidth).length";
  expect(await page.evaluate(cut)).toBe(0);
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
