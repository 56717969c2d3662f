import { rootCertificates } from "node:tls";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";

import type { HttpClient, PipelineRequest } from "@azure/core-rest-pipeline";
import { CodedError, messageOf } from "cloud-controller-host/sdk";

import { readRegularFile } from "../../regular-file.ts";
import { linkSignals } from "./signals.ts";

/** One request in the form that `fetch` takes. */
export interface Outgoing {
  readonly url: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array<ArrayBuffer>;
  /** Certificate authorities in place of the system's. */
  readonly ca: readonly string[] | undefined;
  readonly signal: AbortSignal;
  /** Limit for the whole reply. Default: a minute. */
  readonly timeoutMs?: number;
  /** Limit of the reply's body, decompressed. Default: 32 MiB. */
  readonly maxBytes?: number;
}

export interface Incoming {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
}

/** The connection failed or the reply timed out: a retry may succeed. */
export class TransportError extends CodedError {
  constructor(message: string, options?: ErrorOptions) {
    super("Unreachable", message, options);
  }
}

/** Characters. */
const longReply = 65_536;

/** With the authorities as an option, every request copies and hashes all of them: most of what sending it takes. */
const sessions = new WeakMap<readonly string[], Bun.FetchSession>();

function sessionWith(ca: readonly string[]): Bun.FetchSession {
  const session = sessions.get(ca) ?? new Bun.FetchSession({ tls: { ca: [...ca] } });
  sessions.set(ca, session);
  return session;
}

/** Sends a request with Bun's `fetch`, which pools connections; redirects are not followed. */
export async function send(outgoing: Outgoing): Promise<Incoming> {
  const { url, method, headers, body, ca, signal, timeoutMs = 60_000 } = outgoing;
  signal.throwIfAborted();
  const abort = new AbortController();
  const cancel = (): void => abort.abort(signal.reason);
  signal.addEventListener("abort", cancel, { once: true });
  const timer = setTimeout(() => abort.abort(new TransportError(`no answer within ${timeoutMs / 1000} s`)), timeoutMs);
  try {
    const response = await fetch(url, {
      method,
      headers: { ...headers, "accept-encoding": "gzip" },
      redirect: "manual",
      // The body is decompressed here, as far as its limit.
      decompress: false,
      signal: abort.signal,
      ...(body === undefined ? {} : { body }),
      ...(ca === undefined ? {} : { session: sessionWith(ca) }),
    });
    const text = await boundedText(response, outgoing.maxBytes);
    // The SDK takes milliseconds for a page of a list. The next one often arrives before timers get their turn.
    if (text.length >= longReply) await new Promise((resolve) => setImmediate(resolve));
    return { status: response.status, headers: Object.fromEntries(response.headers), text };
  } catch (error) {
    if (abort.signal.aborted) throw abort.signal.reason;
    if (error instanceof ReplyTooLargeError) throw error;
    throw new TransportError(error instanceof Error ? error.message : String(error), { cause: error });
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", cancel);
  }
}

/** The authorities to trust when `resourceManagerCAFile` is set: those of the file and the system's. */
export async function readAuthorities(file: string): Promise<readonly string[] | undefined> {
  if (file === "") return undefined;
  let text: string;
  try {
    text = (await readRegularFile(file)).toString();
  } catch (error) {
    throw new CodedError("CAFile", `resourceManagerCAFile: cannot read ${file}`, { cause: error });
  }
  if (!text.includes("-----BEGIN CERTIFICATE-----"))
    throw new CodedError("CAFile", `resourceManagerCAFile: ${file} holds no PEM certificate`);
  return [...rootCertificates, text];
}

type CreateHeaders = (headers: Record<string, string>) => PipelineRequest["headers"];

/** The SDK's transport. A request ends when its own signal aborts, or the given one. */
export function fetchClient(options: {
  readonly ca: readonly string[] | undefined;
  readonly signal?: AbortSignal;
  readonly createHeaders: CreateHeaders;
  readonly timeoutMs?: number;
}): HttpClient {
  const { ca, createHeaders, timeoutMs, signal = new AbortController().signal } = options;
  return {
    async sendRequest(request) {
      const link = linkSignals(signal, request.abortSignal);
      try {
        const body = bodyOf(request);
        const { url, method } = request;
        const headers = request.headers.toJSON();
        const reply = await send({
          url,
          method,
          headers,
          ca,
          signal: link.signal,
          ...(body === undefined ? {} : { body }),
          ...(timeoutMs === undefined ? {} : { timeoutMs }),
        });
        return {
          request,
          status: reply.status,
          headers: createHeaders({ ...reply.headers }),
          bodyAsText: reply.text,
        };
      } finally {
        link.release();
      }
    },
  };
}

function bodyOf(request: PipelineRequest): string | undefined {
  const { body } = request;
  if (body === undefined || body === null) return undefined;
  if (typeof body === "string") return body;
  throw new TypeError(`${request.method} ${request.url}: only text can be sent`);
}

const inflate = promisify(gunzip);
const decoder = new TextDecoder();

/** More than any list of Azure has on one page. */
const defaultMaxBytes = 32 * 2 ** 20;

/** A retry would receive the same reply. */
class ReplyTooLargeError extends CodedError {
  constructor(maxBytes: number) {
    super("ReplyTooLarge", `the reply has more than ${maxBytes / 2 ** 20} MiB`);
  }
}

/** The body of a reply that was not decompressed, as text; never more than the limit is held in memory. */
async function boundedText(response: Response, maxBytes = defaultMaxBytes): Promise<string> {
  const body = await bytesOf(response, maxBytes);
  const encoding = response.headers.get("content-encoding")?.toLowerCase() ?? "identity";
  if (encoding === "identity" || body.length === 0) return decoder.decode(body);
  if (encoding !== "gzip" && encoding !== "x-gzip")
    throw new CodedError("UnknownEncoding", `the reply is encoded as ${encoding}, which was not requested`);
  try {
    return decoder.decode(await inflate(body, { maxOutputLength: maxBytes }));
  } catch (error) {
    if (isTooLarge(error)) throw new ReplyTooLargeError(maxBytes);
    throw new CodedError("InvalidReply", `the reply cannot be decompressed: ${messageOf(error)}`, { cause: error });
  }
}

const isTooLarge = (error: unknown): boolean =>
  error instanceof Error && "code" in error && error.code === "ERR_BUFFER_TOO_LARGE";

async function bytesOf({ body }: Response, maxBytes: number): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  if (body !== null)
    for await (const chunk of body) {
      length += chunk.length;
      if (length > maxBytes) throw new ReplyTooLargeError(maxBytes);
      chunks.push(chunk);
    }
  return Buffer.concat(chunks, length);
}
