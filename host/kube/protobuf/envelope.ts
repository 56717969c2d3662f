import { CodedError, isObject, type KindRef, kinds } from "cloud-controller-host/sdk";

import { Decoder } from "./decode.ts";
import { always, filled, list, type Message, message, required, set } from "./message.ts";
import { node } from "./node.ts";

const mediaType = "application/vnd.kubernetes.protobuf";

/** For kinds that can be read from protobuf. A server without it answers in JSON. */
export const protobufAccept = `${mediaType},application/json`;

/** The reply decides and not the request: the server, or a proxy before it, may answer in JSON. */
export const isProtobuf = ({ headers }: Response): boolean =>
  headers.get("content-type")?.split(";", 1)[0]?.trim().toLowerCase() === mediaType;

const listMeta = message({
  1: filled("selfLink", "text"),
  2: filled("resourceVersion", "text"),
  3: filled("continue", "text"),
  4: set("remainingItemCount", "integer"),
});

const statusCause = message({ 1: filled("reason", "word"), 2: filled("message", "text"), 3: filled("field", "text") });
const details = message({
  1: filled("name", "text"),
  2: filled("group", "word"),
  3: filled("kind", "word"),
  4: list("causes", statusCause),
  5: filled("retryAfterSeconds", "integer"),
  6: filled("uid", "text"),
});
const status = message({
  1: always("metadata", listMeta),
  2: filled("status", "word"),
  3: filled("message", "text"),
  4: filled("reason", "word"),
  5: set("details", details),
  6: filled("code", "integer"),
});

/** By apiVersion and kind. Source: `meta/v1` and `core/v1` of Kubernetes. */
const documents: Readonly<Record<string, Message>> = {
  "v1/Node": node,
  "v1/NodeList": message({ 1: required("metadata", listMeta), 2: list("items", node) }),
  "v1/Status": status,
};

/** True for a kind that informers can read from protobuf. */
export const isReadable = ({ group, version, plural }: KindRef): boolean =>
  group === kinds.Node.group && version === kinds.Node.version && plural === kinds.Node.plural;

const magic = Buffer.from("k8s\0");
/** Source: `runtime.Unknown` of apimachinery. */
const envelope = message({
  1: required("type", message({ 1: always("apiVersion", "word"), 2: always("kind", "word") })),
  2: set("raw", "bytes"),
  3: filled("contentEncoding", "word"),
  4: filled("contentType", "word"),
});
/** Source: `meta/v1.WatchEvent`; the object is a `runtime.RawExtension`. */
const watchEvent = message({
  1: always("type", "word"),
  2: required("object", message({ 1: set("raw", "bytes") })),
});

/** Reads documents and watch events. Skips the fields that informers of Nodes drop. */
export class ProtobufReader {
  readonly #decoder = new Decoder();

  document(bytes: Uint8Array): unknown {
    return readable(() => this.#document(bufferOf(bytes)));
  }

  event(frame: Uint8Array): unknown {
    return readable(() => {
      const { type, object } = this.#decoder.decode(bufferOf(frame), watchEvent);
      return { type, object: this.#document(bytesAt(object, "raw")) };
    });
  }

  #document(bytes: Buffer): unknown {
    if (!bytes.subarray(0, magic.length).equals(magic)) throw new RangeError("the envelope is missing");
    const outer = this.#decoder.decode(bytes.subarray(magic.length), envelope);
    if ("contentEncoding" in outer || "contentType" in outer)
      throw new RangeError("the envelope holds another encoding");
    const type = isObject(outer["type"]) ? outer["type"] : {};
    const schema = documents[`${String(type["apiVersion"])}/${String(type["kind"])}`];
    return schema === undefined ? type : { ...type, ...this.#decoder.decode(bytesAt(outer, "raw"), schema) };
  }
}

/** The error quotes nothing: a reply may contain a token. */
function readable<T>(read: () => T): T {
  try {
    return read();
  } catch (cause) {
    throw new CodedError("UnexpectedReply", "the API server's reply is not valid protobuf", { cause });
  }
}

const bufferOf = ({ buffer, byteOffset, byteLength }: Uint8Array): Buffer =>
  Buffer.from(buffer, byteOffset, byteLength);

function bytesAt(holder: unknown, field: string): Buffer {
  const value = isObject(holder) ? holder[field] : undefined;
  return Buffer.isBuffer(value) ? value : Buffer.alloc(0);
}
