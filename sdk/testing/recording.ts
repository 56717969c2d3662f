import type { Clock, ControllerContext } from "../context.ts";
import type { KindRef, KubeObject } from "../kinds.ts";
import type { Informers, KubeClient } from "../kube.ts";
import type { Permission } from "../plugin.ts";

/** What a controller asked of the API server, in the words of RBAC; `resource` holds the sub-resource too. */
export interface ApiUse {
  readonly verb: string;
  readonly apiGroup: string;
  readonly resource: string;
}

/** A context that notes what is done with it. */
export interface RecordedContext {
  readonly context: ControllerContext;
  readonly uses: readonly ApiUse[];
  /** Sleeps on its clock that have not ended. */
  readonly sleepers: number;
}

const writingVerbs: ReadonlySet<string> = new Set(["create", "update", "patch", "delete"]);
export const isWrite = ({ verb }: ApiUse): boolean => writingVerbs.has(verb);

export function recorded(context: ControllerContext): RecordedContext {
  const uses: ApiUse[] = [];
  let sleepers = 0;
  const note = (verb: string, kind: KindRef, subresource?: string): void => {
    const resource = subresource === undefined ? kind.plural : `${kind.plural}/${subresource}`;
    uses.push({ verb, apiGroup: kind.group, resource });
  };
  const clock: Clock = {
    now: () => context.clock.now(),
    monotonic: () => context.clock.monotonic(),
    async sleep(ms, signal) {
      sleepers++;
      try {
        await context.clock.sleep(ms, signal);
      } finally {
        sleepers--;
      }
    },
  };
  return {
    uses,
    context: {
      ...context,
      clock,
      client: recordedClient(context.client, note),
      informers: recordedInformers(context.informers, note),
    },
    get sleepers() {
      return sleepers;
    },
  };
}

type Note = (verb: string, kind: KindRef, subresource?: string) => void;

function recordedClient(client: KubeClient, note: Note): KubeClient {
  return {
    get(kind, name, options) {
      note("get", kind);
      return client.get(kind, name, options);
    },
    list(kind, options) {
      note("list", kind);
      return client.list(kind, options);
    },
    create(kind, object, options) {
      note("create", kind);
      return client.create(kind, object, options);
    },
    replace(kind, object, options) {
      note("update", kind, options?.subresource);
      return client.replace(kind, object, options);
    },
    patch(kind, name, type, body, options) {
      note("patch", kind, options?.subresource);
      return client.patch(kind, name, type, body, options);
    },
    delete(kind, name, options) {
      note("delete", kind);
      return client.delete(kind, name, options);
    },
  };
}

function recordedInformers(informers: Informers, note: Note): Informers {
  return {
    of<T extends KubeObject>(kind: KindRef<T>, options?: Parameters<Informers["of"]>[1]) {
      note("list", kind);
      note("watch", kind);
      return informers.of(kind, options);
    },
  };
}

/** Whether one of the rules allows the use; rules for certain names are taken at their word. */
export function isPermitted(rules: readonly Permission[], use: ApiUse): boolean {
  return rules.some(
    ({ apiGroup, resources, verbs }) =>
      apiGroup === use.apiGroup && resources.includes(use.resource) && verbs.includes(use.verb),
  );
}
