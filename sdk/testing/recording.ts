import type { Clock, ControllerContext } from "../context.ts";
import type { KindRef, KubeObject } from "../kinds.ts";
import type { Informers, KubeClient, ObjectName } from "../kube.ts";
import type { Permission } from "../plugin.ts";

/** One API request, in RBAC terms; `resource` includes the subresource. */
export interface ApiUse {
  readonly verb: string;
  readonly apiGroup: string;
  readonly resource: string;
}

/** A write that succeeded. */
export interface ApiWrite extends ApiUse {
  /** `namespace/name`, or only the name. */
  readonly target: string;
  /** The request body, as JSON. */
  readonly body: string;
}

export interface RecordedContext {
  readonly context: ControllerContext;
  readonly uses: readonly ApiUse[];
  readonly written: readonly ApiWrite[];
  /** Pending sleeps on its clock. */
  readonly sleepers: number;
  /** Awaits `gate` before each further write; a rejection fails the write. */
  beforeWrites(gate: () => Promise<void>): void;
}

const writingVerbs: ReadonlySet<string> = new Set(["create", "update", "patch", "delete", "deletecollection"]);
export const isWrite = ({ verb }: ApiUse): boolean => writingVerbs.has(verb);

interface Notes {
  readonly uses: ApiUse[];
  readonly written: ApiWrite[];
  gate: () => Promise<void>;
}

export function recorded(context: ControllerContext): RecordedContext {
  const notes: Notes = { uses: [], written: [], gate: () => Promise.resolve() };
  let sleepers = 0;
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
    uses: notes.uses,
    written: notes.written,
    context: {
      ...context,
      clock,
      client: recordedClient(context.client, notes),
      informers: recordedInformers(context.informers, notes),
    },
    get sleepers() {
      return sleepers;
    },
    beforeWrites(gate) {
      notes.gate = gate;
    },
  };
}

const useOf = (verb: string, kind: KindRef, subresource?: string): ApiUse => ({
  verb,
  apiGroup: kind.group,
  resource: subresource === undefined ? kind.plural : `${kind.plural}/${subresource}`,
});

const targetOf = ({ namespace, name }: Partial<ObjectName>): string =>
  namespace === undefined ? (name ?? "") : `${namespace}/${name}`;

function recordedClient(client: KubeClient, notes: Notes): KubeClient {
  const write = async <R>(use: ApiUse, target: Partial<ObjectName>, body: unknown, send: () => Promise<R>) => {
    notes.uses.push(use);
    await notes.gate();
    const answer = await send();
    notes.written.push({ ...use, target: targetOf(target), body: JSON.stringify(body) ?? "" });
    return answer;
  };
  return {
    get(kind, name, options) {
      notes.uses.push(useOf("get", kind));
      return client.get(kind, name, options);
    },
    list(kind, options) {
      notes.uses.push(useOf("list", kind));
      return client.list(kind, options);
    },
    create(kind, object, options) {
      return write(useOf("create", kind), object.metadata ?? {}, object, () => client.create(kind, object, options));
    },
    replace(kind, object, options) {
      const use = useOf("update", kind, options?.subresource);
      return write(use, object.metadata ?? {}, object, () => client.replace(kind, object, options));
    },
    patch(kind, name, type, body, options) {
      const use = useOf("patch", kind, options?.subresource);
      return write(use, name, body, () => client.patch(kind, name, type, body, options));
    },
    delete(kind, name, options) {
      return write(useOf("delete", kind), name, undefined, () => client.delete(kind, name, options));
    },
    deleteCollection(kind, options) {
      const { namespace = "", labelSelector, fieldSelector } = options;
      const body = { labelSelector, fieldSelector };
      const send = (): Promise<void> => client.deleteCollection(kind, options);
      return write(useOf("deletecollection", kind), { namespace, name: "" }, body, send);
    },
    evict(pod, options) {
      const use = { verb: "create", apiGroup: "", resource: "pods/eviction" };
      return write(use, pod, undefined, () => client.evict(pod, options));
    },
  };
}

function recordedInformers(informers: Informers, { uses }: Notes): Informers {
  return {
    of<T extends KubeObject>(kind: KindRef<T>, options?: Parameters<Informers["of"]>[1]) {
      uses.push(useOf("list", kind), useOf("watch", kind));
      return informers.of(kind, options);
    },
  };
}

/** True when a rule allows the request. `resourceNames` are not checked. */
export function isPermitted(rules: readonly Permission[], use: ApiUse): boolean {
  return rules.some(
    ({ apiGroup, resources, verbs }) =>
      apiGroup === use.apiGroup && resources.includes(use.resource) && verbs.some((verb) => verb === use.verb),
  );
}
