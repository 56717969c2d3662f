import { join } from "node:path";

import { phaseRules, rows } from "../../../host/generation/report/states.ts";

const row = (...cells: readonly string[]): string => `| ${cells.join(" | ")} |`;

/** The tables of `host/generation/report/states.ts` in Markdown, between the marks of `host/README.md`. */
export const stateTables = (): string =>
  [
    row("Phase", "May write", "Awaits", "Limit", "On abort"),
    row("---", "---", "---", "---", "---"),
    ...Object.entries(phaseRules).map(([phase, rule]) =>
      row(`\`${phase}\``, rule.mayWrite, rule.awaits, rule.limit, rule.onAbort),
    ),
    "",
    row("Phase", "Event", "Condition", "Next", "Effects"),
    row("---", "---", "---", "---", "---"),
    ...rows.map(({ from, on, when = "", to, effects }) =>
      row(`\`${from}\``, `\`${on}\``, when, `\`${to}\``, effects.join(", ")),
    ),
  ].join("\n");

export const pagePath = join(import.meta.dir, "..", "..", "..", "host", "README.md");
export const marks = ["<!-- states: bun test/host/generation/state-page.ts -->", "<!-- end of states -->"] as const;

/** Run as a program, writes the tables into the page. */
if (import.meta.main) {
  const page = await Bun.file(pagePath).text();
  const [before = "", rest = ""] = page.split(marks[0]);
  const [, after = ""] = rest.split(marks[1]);
  await Bun.write(pagePath, `${before}${marks[0]}\n\n${stateTables()}\n\n${marks[1]}${after}`);
}
