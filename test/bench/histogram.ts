/**
 * A quantile of a histogram in the text format, in the histogram's own unit. Within a bucket the values are taken to be
 * spread evenly, as Prometheus does, so that it is no more exact than the buckets are fine; `most` is known to be above
 * every value.
 */
export function quantileOf(text: string, name: string, label: string, share: number, max: number): number {
  const buckets = bucketsOf(text, name, label).map(({ bound, count }) => ({ bound: Math.min(bound, max), count }));
  const wanted = share * (buckets.at(-1)?.count ?? 0);
  let below = { bound: 0, count: 0 };
  for (const bucket of buckets) {
    if (bucket.count >= wanted && bucket.count > below.count) {
      const part = (wanted - below.count) / (bucket.count - below.count);
      return below.bound + part * (bucket.bound - below.bound);
    }
    below = bucket;
  }
  return below.bound;
}

/** Of the series that has the label, such as `name="service"`; each bucket counts those below it too. */
function bucketsOf(text: string, name: string, label: string): readonly { bound: number; count: number }[] {
  return text.split("\n").flatMap((line) => {
    const [, metric, labels = "", count] = /^(\w+)\{(.*)\} (\S+)$/.exec(line) ?? [];
    const bound = /\ble="([^"]+)"/.exec(labels)?.[1];
    if (metric !== `${name}_bucket` || bound === undefined || !labels.split(",").includes(label)) return [];
    return [{ bound: bound === "+Inf" ? Number.POSITIVE_INFINITY : Number(bound), count: Number(count) }];
  });
}
