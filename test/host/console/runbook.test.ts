import { expect, test } from "bun:test";
import { join } from "node:path";

import { runbook } from "../../../host/console/runbook.ts";

const deploy = join(import.meta.dir, "../../../deploy");
const texts: readonly string[] = Object.values(runbook);
const all = (pattern: RegExp): string[] =>
  texts.flatMap((text) => [...text.matchAll(pattern)].map(([, found = ""]) => found));

test("the rows that a remedy refers to exist, and deploy/ALERTS.md has every row", async () => {
  const rows = Object.keys(runbook);
  const named = all(/(?:[Ss]ee|[Aa]s for) `([A-Z]\w+)`/gu);
  expect(named).toContain("NodeNotInitialized");
  expect(named.filter((name) => !rows.includes(name))).toEqual([]);
  const page = await Bun.file(join(deploy, "ALERTS.md")).text();
  expect(rows.filter((name) => !page.includes(`\n| \`${name}\` |`))).toEqual([]);
});

test("the links of remedies lead to headings of pages in deploy/", async () => {
  const links = all(/\]\(([^)]+)\)/gu);
  expect(links).not.toEqual([]);
  for (const link of links) {
    const [file = "", heading] = link.split("#");
    const page = await Bun.file(join(deploy, file)).text();
    const headings = [...page.matchAll(/^#+ (.+)$/gmu)].map(([, title = ""]) =>
      title.toLowerCase().replaceAll(" ", "-"),
    );
    if (heading !== undefined) expect(headings).toContain(heading);
  }
});
