/** As the formatter of the project aligns it. */
export function table(rows: readonly (readonly string[])[]): readonly string[] {
  const columns = rows[0]?.keys().toArray() ?? [];
  const widths = columns.map((column) => Math.max(3, ...rows.map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]): string =>
    `| ${row.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join(" | ")} |`;
  const [head = [], ...body] = rows;
  return [line(head), `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`, ...body.map(line)];
}
