import { isProtobuf } from "../protobuf/envelope.ts";
import { Frames } from "../protobuf/frames.ts";
import { JsonLines } from "./json-lines.ts";

/** Longest work on chunks that follow each other, without the waits between them, before others get a turn. */
const budgetMs = 5;

/** Splits a stream into documents, a chunk at a time. */
interface Splitter {
  push(bytes: Uint8Array): Iterable<unknown>;
  /** Documents that the end of the stream completes. */
  end(): readonly unknown[];
}

/** The events of a watch, in the encoding of the reply. */
export function watchEvents(response: Response): AsyncGenerator<readonly unknown[], void, void> {
  return batches(response.body ?? [], isProtobuf(response) ? new Frames() : new JsonLines());
}

/**
 * The documents of a stream, one batch per chunk or, where that takes long, several. A list of thousands of objects leaves
 * turns of the event loop to others.
 */
export async function* batches(
  stream: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  splitter: Splitter,
): AsyncGenerator<readonly unknown[], void, void> {
  let busyMs = 0;
  for await (const bytes of stream) {
    let beganMs = performance.now();
    let documents: unknown[] = [];
    for (const document of splitter.push(bytes)) {
      documents.push(document);
      if (busyMs + performance.now() - beganMs < budgetMs) continue;
      yield documents;
      documents = [];
      await new Promise((resolve) => void setImmediate(resolve));
      [busyMs, beganMs] = [0, performance.now()];
    }
    yield documents;
    busyMs += performance.now() - beganMs;
  }
  const rest = splitter.end();
  if (rest.length > 0) yield rest;
}
