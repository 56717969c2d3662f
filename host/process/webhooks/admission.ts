import {
  type AdmissionRequest,
  type AdmissionResponse,
  type Clock,
  type Logger,
  messageOf,
  type Metrics,
  type WebhookPlugin,
} from "cloud-controller-host/sdk";

import { Turns } from "../serving/turns.ts";
import { excessOf } from "./document-size.ts";

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

/** Bodies that take milliseconds to parse are parsed one per turn of the event loop, which also renews the lease. */
const largeBody = 64 * 1024;
const largeBodies = new Turns(1);

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
  return async (request) => {
    const started = clock.monotonic();
    const { pathname, searchParams } = new URL(request.url);
    const current = webhooks();
    if (current === undefined) return new Response("no webhook is ready\n", { status: 503 });
    const webhook = current.find(({ path }) => path === pathname);
    if (webhook === undefined) return new Response("404 page not found\n", { status: 404 });
    const signal = AbortSignal.any([request.signal, AbortSignal.timeout(timeoutOf(searchParams.get("timeout")))]);
    const { status, body, contentType = "text/plain; charset=utf-8" } = await decide(webhook, request, signal, options);
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
  signal: AbortSignal,
  { log, clock }: AdmissionOptions,
): Promise<Outcome> {
  const contentType = request.headers.get("content-type") ?? "";
  if (contentType !== "application/json") return refused(`contentType=${contentType}, expected application/json`);
  let admission: AdmissionRequest | undefined;
  try {
    const text = await request.text();
    if (text.length > largeBody) await new Promise<void>((resolve) => largeBodies.start(false, resolve));
    const excess = excessOf(text);
    if (excess !== undefined) return refused(`the body is refused: ${excess}`);
    admission = admissionOf(JSON.parse(text));
  } catch (error) {
    return refused(`the body is not JSON: ${messageOf(error)}`);
  }
  if (admission === undefined) return refused("expected an AdmissionReview of admission.k8s.io/v1 with a request");
  const aborted = Promise.withResolvers<never>();
  const abort = (): void => aborted.reject(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  try {
    const context = { log: log.with({ webhook: webhook.name }), clock, signal };
    const response = await Promise.race([webhook.admit(admission, context), aborted.promise]);
    return { status: 200, body: reviewOf(webhook, admission.uid, response), contentType: "application/json" };
  } catch (error) {
    log.error("Admission webhook failed", { webhook: webhook.name, error });
    return { status: 500, body: "the webhook failed; see the log\n" };
  } finally {
    signal.removeEventListener("abort", abort);
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
