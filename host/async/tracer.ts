export type SpanAttributes = Readonly<Record<string, string | number | boolean>>;

/** Creates spans explicitly: instrumentation by require hooks does not work on Bun. */
export interface Tracer {
  /** Runs the work in a span; a rejection marks the span as failed. Attributes never hold a secret. */
  span<T>(name: string, attributes: SpanAttributes, work: () => Promise<T>): Promise<T>;
}
