import {
  type AdmissionRequest,
  type AdmissionResponse,
  type Clock,
  type Logger,
  messageOf,
  type Metrics,
  type WebhookPlugin,
} from "cloud-controller-host/sdk";

import { unlessAborted } from "../../async/timeout.ts";

export interface AdmissionOptions {
  /** The enabled webhooks of the generation that runs or stands by; undefined while there is none. */
  readonly webhooks: () => readonly WebhookPlugin[] | undefined;
  readonly log: Logger;
  readonly clock: Clock;
  readonly metrics: Metrics;
}

/** The API server's default `timeoutSeconds`, for requests without a timeout of their own. */
const defaultTimeoutMs = 10_000;
const maxTimeoutMs = 30_000;

/** A body of this size takes a millisecond to parse, and leaves several times its size to the garbage collector. */
const largeBody = 64 * 1024;
/** Large bodies that are parsed per millisecond: the collector keeps up, and the lease is renewed in between. */
const largeBytesPerMs = 16 * 1024;

/** Large bodies that would wait longer are refused: each is held in memory while it waits. */
const longestWaitMs = 500;

/** Starts large bodies one after the other, each when the one before has had its time. */
class Pace {
  readonly #clock: Clock;
  #freeAtMs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Resolves to false where too many wait already. */
  async wait(bytes: number, signal: AbortSignal): Promise<boolean> {
    const nowMs = this.#clock.monotonic();
    const startMs = Math.max(nowMs, this.#freeAtMs);
    if (startMs - nowMs > longestWaitMs) return false;
    this.#freeAtMs = startMs + bytes / largeBytesPerMs;
    await this.#clock.sleep(startMs - nowMs, signal);
    return true;
  }
}

const overloaded = { status: 503, body: "too many large requests at once; try again\n" } as const;

interface Outcome {
  readonly status: number;
  readonly body: string;
  readonly contentType?: string;
}

/**
 * Handles admission requests with the webhooks of the current generation. Without one it answers 503, so that the API
 * server applies the failure policy. Source: cloud-provider `app/webhooks.go`; unlike there, successes are counted too.
 */
export function admissionHandler(options: AdmissionOptions): (request: Request) => Promise<Response> {
  const { clock, metrics, webhooks } = options;
  const total = metrics.counter<"code" | "webhook">({
    name: "cloud_provider_webhook_request_total",
    help: "Number of HTTP requests partitioned by status code.",
    labels: ["code", "webhook"],
  });
  const duration = metrics.histogram<"code" | "webhook">({
    name: "cloud_provider_webhook_request_duration_seconds",
    help: "Request latency in seconds. Broken down by status code.",
    labels: ["code", "webhook"],
    buckets: [0.25, 0.5, 0.7, 1, 1.5, 3, 5, 10],
  });
  const pace = new Pace(clock);
  return async (request) => {
    const started = clock.monotonic();
    const { pathname, searchParams } = new URL(request.url);
    const current = webhooks();
    if (current === undefined) return new Response("no webhook is ready\n", { status: 503 });
    const webhook = current.find(({ path }) => path === pathname);
    if (webhook === undefined) return new Response("404 page not found\n", { status: 404 });
    const signal = AbortSignal.any([request.signal, AbortSignal.timeout(timeoutOf(searchParams.get("timeout")))]);
    const {
      status,
      body,
      contentType = "text/plain; charset=utf-8",
    } = await decide(webhook, request, { ...options, signal, pace });
    const labels = { code: String(status), webhook: webhook.name };
    total.inc(labels);
    duration.observe((clock.monotonic() - started) / 1000, labels);
    return new Response(body, { status, headers: { "content-type": contentType } });
  };
}

/** The API server passes its own timeout as `?timeout=10s`. */
function timeoutOf(text: string | null): number {
  const [, seconds] = /^(\d{1,3})s$/u.exec(text ?? "") ?? [];
  return seconds === undefined ? defaultTimeoutMs : Math.min(maxTimeoutMs, Math.max(1, Number(seconds)) * 1000);
}

async function decide(
  webhook: WebhookPlugin,
  request: Request,
  { log, clock, signal, pace }: AdmissionOptions & { readonly signal: AbortSignal; readonly pace: Pace },
): Promise<Outcome> {
  const contentType = request.headers.get("content-type") ?? "";
  if (contentType !== "application/json") return refused(`contentType=${contentType}, expected application/json`);
  let admission: AdmissionRequest | undefined;
  try {
    // Before the body is copied into a text, where its size is known by then.
    const declared = Number(request.headers.get("content-length") ?? "0");
    if (declared > largeBody && !(await pace.wait(declared, signal))) return overloaded;
    const text = await request.text();
    if (declared <= largeBody && text.length > largeBody && !(await pace.wait(text.length, signal))) return overloaded;
    const excess = excessOf(text);
    if (excess !== undefined) return refused(`the body is refused: ${excess}`);
    admission = admissionOf(JSON.parse(text));
  } catch (error) {
    return refused(`the body is not JSON: ${messageOf(error)}`);
  }
  if (admission === undefined) return refused("expected an AdmissionReview of admission.k8s.io/v1 with a request");
  try {
    // The body may have come too late.
    signal.throwIfAborted();
    const context = { log: log.with({ webhook: webhook.name }), clock, signal };
    const response = await unlessAborted(webhook.admit(admission, context), signal);
    return { status: 200, body: reviewOf(webhook, admission.uid, response), contentType: "application/json" };
  } catch (error) {
    log.error("Admission webhook failed", { webhook: webhook.name, error });
    return { status: 500, body: "the webhook failed; see the log\n" };
  }
}

const refused = (problem: string): Outcome => ({ status: 400, body: `${problem}\n` });

interface Review {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly request?: AdmissionRequest;
}

function admissionOf(review: Review | null): AdmissionRequest | undefined {
  if (review?.apiVersion !== "admission.k8s.io/v1" || review.kind !== "AdmissionReview") return undefined;
  return typeof review.request?.uid === "string" && review.request.uid !== "" ? review.request : undefined;
}

function reviewOf(webhook: WebhookPlugin, uid: string, response: AdmissionResponse): string {
  const { allowed, message, code = 403, patch, warnings } = response;
  if (typeof allowed !== "boolean") throw new TypeError(`webhook "${webhook.name}" did not return { allowed }`);
  if (patch !== undefined && webhook.type !== "mutating")
    throw new TypeError(`webhook "${webhook.name}" returned a patch: declare it with type: "mutating"`);
  return JSON.stringify({
    apiVersion: "admission.k8s.io/v1",
    kind: "AdmissionReview",
    response: {
      uid,
      allowed,
      ...(allowed ? {} : { status: { code, message: message ?? `denied by ${webhook.name}` } }),
      ...(patch === undefined
        ? {}
        : { patchType: "JSONPatch", patch: Buffer.from(JSON.stringify(patch)).toString("base64") }),
      ...(warnings === undefined ? {} : { warnings }),
    },
  });
}

/** Far above any object of Kubernetes. Parsed, each value takes up to a hundred bytes, however short its text. */
const maxValues = 150_000;
/** Go's decoder allows 10,000. */
const maxDepth = 1_000;

const [quote, backslash, comma] = [0x22, 0x5c, 0x2c];
const [openBracket, closeBracket, openBrace, closeBrace] = [0x5b, 0x5d, 0x7b, 0x7d];

/** The reason why a document, small as a text, would be large as objects; undefined when it would not. */
export function excessOf(json: string): string | undefined {
  let [depth, values] = [0, 0];
  for (let i = 0; i < json.length; i++) {
    const code = json.charCodeAt(i);
    if (code === quote) i = endOfText(json, i);
    else if (code === openBracket || code === openBrace) {
      depth++;
      values++;
    } else if (code === closeBracket || code === closeBrace) depth--;
    else if (code === comma) values++;
    if (depth > maxDepth) return `it is nested more than ${maxDepth} deep`;
    if (values > maxValues) return `it has more than ${maxValues} values`;
  }
  return undefined;
}

function endOfText(json: string, start: number): number {
  let end = start;
  do end = json.indexOf('"', end + 1);
  while (end > 0 && isEscaped(json, end));
  return end < 0 ? json.length : end;
}

function isEscaped(json: string, at: number): boolean {
  let before = at;
  while (json.charCodeAt(before - 1) === backslash) before--;
  return (at - before) % 2 === 1;
}
