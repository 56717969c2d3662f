import { useEffect, useState } from "preact/hooks";

import type { Source, StreamMessage } from "../schema.ts";

export interface Connection {
  readonly state: "connecting" | "live" | "cut" | "polling";
  /** Since when it is in that state. */
  readonly since: number;
  readonly identity: string;
  readonly versions: StreamMessage["versions"];
}

const allOf = (version: string): StreamMessage["versions"] => ({
  status: version,
  services: version,
  nodes: version,
  writes: version,
  events: version,
  plan: version,
  tick: version,
});
const noVersions = allOf("");
/** Without a stream, as there are too many, and after a failure. */
const pollMs = 10_000;
/** The host sends something every five seconds: a connection that is silent for so long is dead. */
const maxSilenceMs = 30_000;
/** Longer than the host reads from the cloud for one answer. */
const maxAnswerMs = 30_000;
/** Characters of a failure's text. */
const maxReason = 300;

/** A browser opens six connections to one host, for all its tabs together: two stay free for all else. */
const maxStreams = 4;

/** The one stream of the page, while it is visible and has a place; without one it reads on a timer. */
export function useConnection(): Connection {
  const [connection, setConnection] = useState<Connection>({
    state: "connecting",
    since: Date.now(),
    identity: "",
    versions: noVersions,
  });
  useEffect(() => {
    const enter: Enter = (state, message) =>
      setConnection((before) => ({
        ...before,
        ...message,
        state,
        since: before.state === state ? before.since : Date.now(),
      }));
    let hiding = new AbortController();
    const change = (): void => {
      hiding.abort();
      hiding = new AbortController();
      enter("connecting");
      if (document.visibilityState !== "hidden") void follow(hiding.signal, enter);
    };
    document.addEventListener("visibilitychange", change);
    change();
    return () => {
      document.removeEventListener("visibilitychange", change);
      hiding.abort();
    };
  }, []);
  return connection;
}

type Enter = (state: Connection["state"], message?: Partial<StreamMessage>) => void;

async function follow(signal: AbortSignal, enter: Enter): Promise<void> {
  while (!signal.aborted) {
    const read = (): Promise<void> => readStream(signal, enter);
    // Locks exist on loopback and over TLS.
    await (isSecureContext ? withPlace(read) : read());
    if (signal.aborted) return;
    enter("polling");
    await pause();
    if (!signal.aborted) enter("polling", { versions: allOf(`${Date.now()}`) });
  }
}

const pause = (): Promise<unknown> => new Promise((resolve) => setTimeout(resolve, pollMs));

/** Runs it in one of the places for streams that all tabs of this browser share; not at all when none is free. */
async function withPlace(run: () => Promise<void>): Promise<void> {
  for (let place = 0; place < maxStreams; place++) {
    const isFree = await navigator.locks.request(`stream ${place}`, { ifAvailable: true }, async (lock) => {
      if (lock !== null) await run();
      return lock !== null;
    });
    if (isFree) return;
  }
}

/** Until the signal aborts, the server refuses or it is silent: else the browser connects again by itself. */
async function readStream(signal: AbortSignal, enter: Enter): Promise<void> {
  if (signal.aborted) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const stream = new EventSource("/ui/api/stream");
  let silence = setTimeout(resolve, maxSilenceMs);
  const heard = (): void => {
    clearTimeout(silence);
    silence = setTimeout(resolve, maxSilenceMs);
  };
  const hear = (message?: StreamMessage): void => {
    heard();
    enter("live", message);
  };
  stream.addEventListener("open", () => hear());
  stream.addEventListener("message", ({ data }) => hear(readMessage(data)));
  stream.addEventListener("error", () => {
    // The browser connects again, perhaps to a server that accepts and never answers.
    heard();
    if (stream.readyState === EventSource.CLOSED) resolve();
    else enter("cut");
  });
  signal.addEventListener("abort", () => resolve());
  await promise;
  clearTimeout(silence);
  stream.close();
}

/** Of our own server; an older one may lack a source. */
function readMessage(data: unknown): StreamMessage | undefined {
  if (typeof data !== "string") return undefined;
  const { identity = "", versions = {} } = JSON.parse(data);
  return { identity, versions: { ...noVersions, ...versions } };
}

export interface Answer<T> {
  readonly data: T | undefined;
  /** Why the data are not of now; undefined where they are. */
  readonly failure: string | undefined;
  readonly at: number;
}

/** The answer of one view, read again whenever its query or one of its sources has changed, and after a failure. */
export function useAnswer<T>(path: string, sources: readonly Source[], { versions }: Connection): Answer<T> {
  const [answer, setAnswer] = useState<Answer<T>>({ data: undefined, failure: undefined, at: 0 });
  const version = sources.map((source) => versions[source]).join(" ");
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    const fail = (failure: string): void => setAnswer((before) => ({ ...before, failure }));
    const read = async (): Promise<boolean> => {
      try {
        const reply = await fetch(`/ui/api/${path}`, {
          signal: AbortSignal.any([signal, AbortSignal.timeout(maxAnswerMs)]),
        });
        const isJson = reply.headers.get("content-type")?.startsWith("application/json") ?? false;
        const body = await (isJson ? reply.json() : reply.text());
        const isAnswer = reply.ok && isJson;
        if (!signal.aborted && isAnswer) setAnswer({ data: body, failure: undefined, at: Date.now() });
        else if (!signal.aborted) fail(failureOf(reply.status, isJson ? body.error : body));
        return isAnswer;
      } catch {
        if (!signal.aborted) fail("The host does not answer.");
        return false;
      }
    };
    const readUntilAnswered = async (): Promise<void> => {
      let isAnswered = await read();
      while (!isAnswered && !signal.aborted) {
        await pause();
        isAnswered = !signal.aborted && document.visibilityState !== "hidden" && (await read());
      }
    };
    void readUntilAnswered();
    return () => controller.abort();
  }, [path, version]);
  return answer;
}

const reasons: Readonly<Record<number, string>> = {
  401: "The credentials are no longer valid, or the host could not ask the API server about them. If this lasts, open the console again.",
  403: "These credentials may not read /ui/*. Ask for the role of deploy/OPERATE.md, Roles.",
  404: "It is not known to this replica: deleted, or nothing here watches its kind.",
};

function failureOf(status: number, error: unknown): string {
  const text = typeof error === "string" ? error.trim() : "";
  const reason = text.length > maxReason ? `${text.slice(0, maxReason)}…` : text;
  return reasons[status] ?? `The host answered ${status}${reason === "" ? "" : `: ${reason}`}`;
}
