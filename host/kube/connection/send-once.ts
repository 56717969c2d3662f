import { type ApiError, CodedError } from "cloud-controller-host/sdk";

import { LinkedSignal } from "../../async/linked-signal.ts";
import type { Session } from "./dedicated-session.ts";
import { parseReply, statusError } from "./wire.ts";

/** One attempt of a request. */
export interface SendOptions {
  readonly session: Session;
  readonly method: string;
  /** The API server's address, for messages. */
  readonly server: string;
  /** Path and query. */
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
  readonly signal: AbortSignal | undefined;
  /** Until the whole reply has arrived, or, for a stream, until it begins. */
  readonly timeoutMs: number;
  readonly stream: boolean;
  readonly permissionHint: string | undefined;
}

/** Result of one attempt. The status is absent without a complete reply. */
export type Answer =
  | { readonly ok: true; readonly status: number; readonly response: Response; readonly size: number | undefined }
  | { readonly ok: false; readonly status: number | undefined; readonly error: unknown };

/**
 * Sends one request and reads the whole reply, unless it is a stream; no listener or timer remains when this resolves.
 * Rejects only with the reason of the caller's signal, when that aborts.
 */
export async function sendOnce(call: SendOptions): Promise<Answer> {
  const link = new LinkedSignal(call.signal);
  link.setDeadline(call.timeoutMs, () => timeoutError(call));
  let streaming = false;
  try {
    link.signal.throwIfAborted();
    const response = await call.session.fetch(call.server + call.target, {
      method: call.method,
      headers: call.headers,
      signal: link.signal,
      // The deadline of this call and the reader of a stream detect idleness; the default timeout would end a quiet watch.
      timeout: false,
      redirect: "manual",
      ...(call.body !== undefined && { body: call.body }),
    });
    if (!response.ok) return { ok: false, status: response.status, error: await errorOf(call, response) };
    if (call.stream) {
      link.clearDeadline();
      streaming = true;
      return { ok: true, status: response.status, response: releasing(response, link), size: undefined };
    }
    const bytes = await response.arrayBuffer();
    const { status, headers } = response;
    const body = bytes.byteLength === 0 ? null : bytes;
    return { ok: true, status, response: new Response(body, { status, headers }), size: bytes.byteLength };
  } catch (cause) {
    if (call.signal?.aborted) throw call.signal.reason;
    return { ok: false, status: undefined, error: link.signal.aborted ? link.signal.reason : unreachable(call, cause) };
  } finally {
    if (!streaming) link.release();
  }
}

const timeoutError = (call: SendOptions): CodedError =>
  new CodedError(
    "Timeout",
    `${call.method} ${call.server}${pathOnly(call)}: no reply within ${call.timeoutMs / 1000} s`,
  );

const unreachable = (call: SendOptions, cause: unknown): CodedError =>
  new CodedError("ApiServerUnreachable", `cannot reach the API server ${call.server}`, { cause });

const pathOnly = (call: SendOptions): string => call.target.split("?", 1)[0] ?? "";

async function errorOf(call: SendOptions, response: Response): Promise<ApiError> {
  const bytes = await response.bytes();
  let body: unknown;
  try {
    body = parseReply(response, bytes);
  } catch {
    // A gateway's own page: the code describes it.
  }
  return statusError(`${call.method} ${pathOnly(call)}`, response.status, body, {
    retryAfterMs: retryAfterMs(response),
    permissionHint: call.permissionHint,
  });
}

/** API servers send whole seconds. */
function retryAfterMs(response: Response): number | undefined {
  const header = response.headers.get("retry-after");
  return header !== null && /^\d+$/.test(header) ? Number(header) * 1000 : undefined;
}

/** Passes a stream's body through, and releases the caller's signal when it ends, fails or is canceled. */
function releasing(response: Response, link: LinkedSignal): Response {
  const reader = response.body?.getReader();
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = (await reader?.read()) ?? { done: true, value: undefined };
        if (value !== undefined) controller.enqueue(value);
        if (!done) return;
        link.release();
        controller.close();
      } catch (error) {
        link.release();
        controller.error(error);
      }
    },
    async cancel(reason) {
      link.release();
      await reader?.cancel(reason);
    },
  });
  return new Response(body, { status: response.status, headers: response.headers });
}
