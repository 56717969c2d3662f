import { ApiError } from "cloud-controller-host/sdk";

import { statusOf } from "../access/status.ts";
import type { JsonObject } from "../json.ts";

const jsonType = { "content-type": "application/json" } as const;

/** A reply whose JSON text is there already. */
export const textReply = (text: string, status = 200, headers: Readonly<Record<string, string>> = {}): Response =>
  new Response(text, { status, headers: { ...jsonType, ...headers } });

export const jsonReply = (value: JsonObject, status = 200): Response => textReply(`${JSON.stringify(value)}\n`, status);

export const plainReply = (text: string): Response =>
  new Response(text, { headers: { "content-type": "text/plain; charset=utf-8" } });

/** The `Status` object for whatever was thrown. */
export function errorReply(error: unknown): Response {
  const status = statusOf(error);
  const wait = error instanceof ApiError ? error.retryAfterMs : undefined;
  const headers = wait === undefined ? {} : { "retry-after": String(Math.ceil(wait / 1000)) };
  return textReply(`${JSON.stringify(status)}\n`, status.code, headers);
}
