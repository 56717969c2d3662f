/** One figure of a bench: a number with its unit, or a text. */
export interface Figure {
  readonly name: string;
  readonly value: number | string;
  readonly unit?: string;
  /** Target value, for comparison. */
  readonly aim?: string;
  /** Value of the other program, in a comparison. */
  readonly against?: number | string;
}

export interface Bench {
  readonly about: string;
  /** Its options with their defaults. */
  readonly options: Readonly<Record<string, string>>;
  run(options: Readonly<Record<string, string>>): Promise<readonly Figure[]>;
}

/** A table for people or, for programs, one line of JSON. */
export function printReport(name: string, figures: readonly Figure[], json: boolean): void {
  process.stdout.write(json ? `${JSON.stringify(asObject(name, figures))}\n` : table(name, figures));
}

const asObject = (name: string, figures: readonly Figure[]): object => ({
  bench: name,
  ...Object.fromEntries(figures.map((figure) => [figure.name, figure.value])),
});

function table(name: string, figures: readonly Figure[]): string {
  const rows = figures.map(({ name: label, value, unit = "", aim = "", against }) => [
    label,
    against === undefined
      ? `${shown(value)} ${unit}`.trim()
      : `${shown(value)} against ${shown(against)} ${unit}`.trim(),
    aim,
  ]);
  const widths = [0, 1].map((column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const lines = rows.map(([label = "", value = "", aim = ""]) =>
    `  ${label.padEnd(widths[0] ?? 0)}  ${value.padStart(widths[1] ?? 0)}  ${aim === "" ? "" : `(aim: ${aim})`}`.trimEnd(),
  );
  return `\nbench ${name}\n${lines.join("\n")}\n`;
}

export const shown = (value: number | string): string =>
  typeof value === "number" && !Number.isInteger(value) ? value.toFixed(value < 10 ? 2 : 1) : String(value);

/** The median of each figure over runs of the same bench, and the lowest and highest value of each. */
export function medians(runs: readonly (readonly Figure[])[]): readonly Figure[] {
  const [first = []] = runs;
  if (runs.length < 2) return first;
  const figures = first.map((figure, index): Figure => {
    const values = runs.flatMap((run) => run[index]?.value ?? []).filter((value) => typeof value === "number");
    if (values.length < runs.length) return figure;
    const sorted = values.toSorted((one, other) => one - other);
    const middle = Math.floor(sorted.length / 2);
    const upper = sorted[middle] ?? 0;
    const value = sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? 0)) / 2;
    const [least = 0, most = 0] = [sorted[0], sorted.at(-1)];
    const spread = least === most ? "" : ` (${shown(least)} to ${shown(most)})`;
    return { ...figure, value, unit: `${figure.unit ?? ""}${spread}`.trim() };
  });
  return [{ name: "runs", value: runs.length, unit: "medians, with the lowest and highest value" }, ...figures];
}

/** The value below which that share of the values lies. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;
}
