import { expect, setDefaultTimeout, test } from "bun:test";

import type { Loopback } from "../../host/console/loopback.ts";
import { untilText } from "./browser.ts";
import { SandboxPages } from "./sandbox-pages.ts";

setDefaultTimeout(240_000);

const pages = new SandboxPages();
const names = Array.from({ length: 15_000 }, (_, index) => `node-${index}`);
const node = { state: "ready", zone: "1", addresses: "", cidrs: "", routes: "", providerID: "", notInPool: "" };

/** A host with many nodes, which answers a short filter later than a long one. */
const crowded = (): Loopback =>
  pages.serve(0, (send) => async (path, headers, signal) => {
    if (!path.startsWith("/ui/api/nodes?")) return send(path, headers, signal);
    const { searchParams: query } = new URL(path, "http://host");
    const [filter, offset] = [query.get("filter") ?? "", Number(query.get("offset"))];
    const matching = names.filter((name) => name.includes(filter));
    const rows = matching.slice(offset, offset + Number(query.get("limit"))).map((name) => ({ name, ...node }));
    if (filter !== "") await Bun.sleep(500 - 50 * filter.length);
    const counts = { ready: names.length };
    return Response.json({ total: names.length, matching: matching.length, offset, rows, counts, available: true });
  });

const rowsOnPage = "document.querySelectorAll('tbody tr:not(.space)').length";

/** The name in the row at the top of the table, or at its end. */
const nameAt = (edge: "top" | "bottom"): string => `(() => {
  const box = document.querySelector(".tall").getBoundingClientRect();
  const y = ${edge === "top" ? "box.top + 36 + 18" : "box.bottom - 20"};
  return document.elementFromPoint(box.left + 20, y).closest("tr").cells[0].innerText;
})()`;

test("a table of 15,000 nodes has 200 rows on the page, and is read to its end with the keyboard", async () => {
  await using server = crowded();
  const { page, complaints } = await pages.visit("nodes", server.url);
  await untilText(page, "15000 of 15000");
  expect([await page.evaluate(rowsOnPage), await page.evaluate(nameAt("top"))]).toEqual([200, "node-0"]);
  await page.focus(".tall");
  await page.keyboard.press("End");
  await untilText(page, "node-14999");
  expect(await page.evaluate(nameAt("bottom"))).toBe("node-14999");
  expect(Number(await page.evaluate(rowsOnPage))).toBeLessThanOrEqual(200);
  const last = "[...document.querySelectorAll('tbody tr:not(.space)')].at(-1).getAttribute('aria-rowindex')";
  expect(await page.evaluate(last)).toBe("15001");
  await page.evaluate("document.querySelector('.tall').scrollTop = 36 * 7000");
  await untilText(page, "node-7005");
  expect(await page.evaluate(nameAt("top"))).toBe("node-7000");
  await page.focus(".tall");
  await page.keyboard.press("Home");
  await untilText(page, "node-0\t");
  expect([await page.evaluate(nameAt("top")), complaints]).toEqual(["node-0", []]);
});

test("a filter typed quickly at the end of a table shows its own rows from the first, although earlier answers are late", async () => {
  await using server = crowded();
  const { page, complaints } = await pages.visit("nodes", server.url);
  await untilText(page, "15000 of 15000");
  await page.focus(".tall");
  await page.keyboard.press("End");
  await untilText(page, "node-14999");
  await page.type("#filter", "node-149");
  await untilText(page, "111 of 15000");
  await Bun.sleep(600);
  await untilText(page, "111 of 15000", 0);
  expect([await page.evaluate(nameAt("top")), await page.evaluate(rowsOnPage)]).toEqual(["node-149", 111]);
  expect(page.url()).toEndWith("/ui/nodes?filter=node-149");
  expect(complaints).toEqual([]);
});
