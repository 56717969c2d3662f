import { ApiError } from "cloud-controller-host/sdk";

import { statusOf } from "../access/status.ts";
import type { JsonObject } from "../json.ts";
import type { Stored } from "../store/stored.ts";
import type { ListText } from "./encoding.ts";

const jsonType = { "content-type": "application/json" } as const;

/** A reply whose JSON text is there already. */
export const textReply = (text: string, status = 200, headers: Readonly<Record<string, string>> = {}): Response =>
  new Response(text, { status, headers: { ...jsonType, ...headers } });

/** Items of a list that are sent in one turn of the event loop, so that a large list holds up no other request. */
const itemsPerTurn = 256;

export function listReply({ head, item, tail }: ListText, items: readonly Stored[]): Response {
  if (items.length <= itemsPerTurn) return textReply(`${head}${items.map(item).join(",")}${tail}`);
  const encoder = new TextEncoder();
  let [sent, before] = [0, head];
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      await new Promise<void>((resolve) => void setImmediate(resolve));
      const piece = items
        .slice(sent, (sent += itemsPerTurn))
        .map(item)
        .join(",");
      const isLast = sent >= items.length;
      controller.enqueue(encoder.encode(`${before}${piece}${isLast ? tail : ""}`));
      before = ",";
      if (isLast) controller.close();
    },
  });
  return new Response(body, { headers: jsonType });
}

export const jsonReply = (value: JsonObject, status = 200): Response => textReply(`${JSON.stringify(value)}\n`, status);

export const plainReply = (text: string): Response =>
  new Response(text, { headers: { "content-type": "text/plain; charset=utf-8" } });

/** Texts in a `Warning` header, in UTF-8: a header takes bytes. */
export const warningHeader = (texts: Iterable<string>): string =>
  Array.from(texts, (text) => `299 - ${Buffer.from(JSON.stringify(text)).toString("latin1")}`).join(", ");

/** The `Status` object for whatever was thrown. */
export function errorReply(error: unknown): Response {
  const status = statusOf(error);
  const wait = error instanceof ApiError ? error.retryAfterMs : undefined;
  const headers: Record<string, string> = wait === undefined ? {} : { "retry-after": String(Math.ceil(wait / 1000)) };
  return textReply(`${JSON.stringify(status)}\n`, status.code, headers);
}
