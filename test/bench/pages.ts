import { CodedError } from "cloud-controller-host/sdk";

import type { HostProcess } from "../kit/host-process.ts";

const views = ["overview", "leadership", "controllers", "nodes?sort=-name&limit=200", "cloud", "writes"];

/** Pages of the console that are open for as long as it is not disposed of. */
export interface OpenPages extends AsyncDisposable {
  /** Views that have been read. */
  readonly reads: number;
}

/** Opens pages as a browser does: each follows the stream, and reads its view again with every message. */
export async function openPages(host: HostProcess, count: number): Promise<OpenPages> {
  const closing = new AbortController();
  const { signal } = closing;
  let reads = 0;
  const follow = async (page: number): Promise<void> => {
    while (!signal.aborted) {
      const { body } = await host.get("/ui/api/stream", { signal });
      if (body === null) throw new CodedError("NotReached", "the console has no stream");
      const reader = body.getReader();
      while (!(await reader.read()).done) {
        await (await host.get(`/ui/api/${views[page % views.length]}`, { signal })).arrayBuffer();
        reads += 1;
      }
    }
  };
  const following = Array.from({ length: count }, (_, page) =>
    follow(page).catch((error: unknown) => {
      if (!signal.aborted) throw error;
    }),
  );
  const all = Promise.all(following);
  all.catch(() => undefined);
  await host.eventually("every page has read its view", () => reads >= count || undefined);
  return {
    get reads() {
      return reads;
    },
    async [Symbol.asyncDispose]() {
      closing.abort();
      await all;
    },
  };
}
