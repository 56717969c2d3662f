import { promisify } from "node:util";
import { gunzip } from "node:zlib";

import { CodedError, messageOf } from "cloud-controller-host/sdk";

const inflate = promisify(gunzip);
const decoder = new TextDecoder();

/** More than any list of Azure has on one page. */
const defaultMaxBytes = 32 * 2 ** 20;

/** A retry would receive the same reply. */
export class ReplyTooLargeError extends CodedError {
  constructor(maxBytes: number) {
    super("ReplyTooLarge", `the reply has more than ${maxBytes / 2 ** 20} MiB`);
  }
}

/** The body of a reply that was not decompressed, as text; never more than the limit is held in memory. */
export async function boundedText(response: Response, maxBytes = defaultMaxBytes): Promise<string> {
  const body = await bytesOf(response, maxBytes);
  const encoding = response.headers.get("content-encoding")?.toLowerCase() ?? "identity";
  if (encoding === "identity" || body.length === 0) return decoder.decode(body);
  if (encoding !== "gzip" && encoding !== "x-gzip")
    throw new CodedError("UnknownEncoding", `the reply is encoded as ${encoding}, which was not asked for`);
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
