/** The value of a metric in the text format, or undefined. Labels that are not given may have any value. */
export function sampleOf(
  text: string,
  name: string,
  labels: Readonly<Record<string, string>> = {},
): number | undefined {
  for (const line of text.split("\n")) {
    const [, metric, given = "", value] = /^(\w+)(?:\{(.*)\})? (\S+)$/u.exec(line) ?? [];
    if (metric !== name) continue;
    if (Object.entries(labels).every(([label, wanted]) => given.includes(`${label}="${wanted}"`))) return Number(value);
  }
  return undefined;
}
