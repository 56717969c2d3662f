/** A Markdown table. Bars in a cell are escaped, and line breaks are spaces. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`.replaceAll("|  |", "| |");
  const cell = (text: string): string =>
    text
      .trim()
      .replaceAll(/\s+/g, " ")
      .replaceAll(/(?<!\\)\|/g, "\\|");
  return [line(head), line(head.map(() => "---")), ...rows.map((row) => line(row.map(cell)))].join("\n");
}

export const code = (text: string): string => (text === "" ? "" : `\`${text}\``);

/** The first lines of every generated page. */
export const heading = (title: string, source: string): string =>
  `# ${title}\n\nGenerated from ${source} by \`bun run reference\`; a test fails when it is out of date.\n`;
