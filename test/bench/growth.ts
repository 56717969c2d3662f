/** The growth of a series by step. */
export interface Growth {
  /** Of the line of least squares. */
  readonly slope: number;
  /** The true slope is within this of it with a probability of about 95 %. */
  readonly error: number;
}

/** How many blocks the error is taken from. Samples that follow each other are alike, which would make it too small. */
const blocks = 6;

/**
 * The slope of a series, and its error. Only the medians of some blocks are compared, so that one sample beside a
 * collection of garbage changes neither.
 */
export function growthOf(values: readonly number[]): Growth {
  const size = Math.max(1, Math.floor(values.length / blocks));
  const first = values.length % size;
  const points: { readonly x: number; readonly y: number }[] = [];
  for (let start = first; start < values.length; start += size) {
    const sorted = values.slice(start, start + size).toSorted((one, other) => one - other);
    points.push({ x: start + (size - 1) / 2, y: sorted[Math.floor(size / 2)] ?? 0 });
  }
  const mean = (of: (point: (typeof points)[number]) => number): number =>
    points.reduce((sum, point) => sum + of(point), 0) / points.length;
  const [meanX, meanY] = [mean(({ x }) => x), mean(({ y }) => y)];
  const spread = mean(({ x }) => (x - meanX) ** 2);
  if (points.length < 3 || spread === 0) return { slope: 0, error: Number.POSITIVE_INFINITY };
  const slope = mean(({ x, y }) => (x - meanX) * (y - meanY)) / spread;
  const rest = mean(({ x, y }) => (y - meanY - slope * (x - meanX)) ** 2);
  const freedom = points.length - 2;
  return { slope, error: (students[freedom] ?? 2) * Math.sqrt(rest / spread / freedom) };
}

/** The 97.5 % quantile of Student's distribution by degrees of freedom. */
const students: Readonly<Record<number, number>> = { 1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571 };
