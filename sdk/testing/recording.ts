import type { Clock, ControllerContext } from "../context.ts";
import { isNotFound } from "../errors.ts";
import { type KindRef, kinds, type KubeObject } from "../kinds.ts";
import type { Informers, KubeClient, ListOptions, ObjectName } from "../kube.ts";
import type { Permission } from "../permissions.ts";

/** One API request, in RBAC terms; `resource` includes the subresource. */
export interface ApiUse {
  readonly verb: string;
  readonly apiGroup: string;
  readonly resource: string;
  /** Empty for all namespaces, and for a cluster-scoped kind. */
  readonly namespace: string;
  /** Empty for a collection, and for a creation. */
  readonly name: string;
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

const useOf = (verb: string, kind: KindRef, place: Partial<ObjectName>, subresource?: string): ApiUse => ({
  verb,
  apiGroup: kind.group,
  resource: subresource === undefined ? kind.plural : `${kind.plural}/${subresource}`,
  namespace: kind.namespaced ? (place.namespace ?? "") : "",
  name: place.name ?? "",
});

/** The selection of a collection. RBAC takes one of a single object by its name for that object. */
function placeOf({ namespace, fieldSelector = "" }: Pick<ListOptions, "namespace" | "fieldSelector"> = {}) {
  const [, name = ""] = /^metadata\.name=([^,=!]+)$/u.exec(fieldSelector) ?? [];
  return { namespace, name };
}

const targetOf = ({ namespace, name }: Partial<ObjectName>): string =>
  namespace === undefined ? (name ?? "") : `${namespace}/${name}`;

function recordedClient(client: KubeClient, notes: Notes): KubeClient {
  const isAbsent = (kind: KindRef, name: ObjectName): Promise<boolean> =>
    client.get(kind, name).then(() => false, isNotFound);
  const write = async <R>(use: ApiUse, target: Partial<ObjectName>, body: unknown, send: () => Promise<R>) => {
    notes.uses.push(use);
    await notes.gate();
    const answer = await send();
    notes.written.push({ ...use, target: targetOf(target), body: JSON.stringify(body) ?? "" });
    return answer;
  };
  return {
    get(kind, name, options) {
      notes.uses.push(useOf("get", kind, name));
      return client.get(kind, name, options);
    },
    list(kind, options) {
      notes.uses.push(useOf("list", kind, placeOf(options)));
      return client.list(kind, options);
    },
    create(kind, object, options) {
      const { metadata = {} } = object;
      const use = useOf("create", kind, { namespace: metadata.namespace });
      return write(use, metadata, object, () => client.create(kind, object, options));
    },
    replace(kind, object, options) {
      const use = useOf("update", kind, object.metadata ?? {}, options?.subresource);
      return write(use, object.metadata ?? {}, object, () => client.replace(kind, object, options));
    },
    async patch(kind, name, type, body, options) {
      const use = useOf("patch", kind, name, options?.subresource);
      if (type === "apply" && options?.subresource === undefined && (await isAbsent(kind, name)))
        notes.uses.push(useOf("create", kind, name));
      return write(use, name, body, () => client.patch(kind, name, type, body, options));
    },
    delete(kind, name, options) {
      return write(useOf("delete", kind, name), name, undefined, () => client.delete(kind, name, options));
    },
    deleteCollection(kind, options) {
      const { namespace = "", labelSelector, fieldSelector } = options;
      const body = { labelSelector, fieldSelector };
      const send = (): Promise<void> => client.deleteCollection(kind, options);
      return write(useOf("deletecollection", kind, placeOf(options)), { namespace, name: "" }, body, send);
    },
    evict(pod, options) {
      const use = useOf("create", kinds.Pod, pod, "eviction");
      return write(use, pod, undefined, () => client.evict(pod, options));
    },
  };
}

function recordedInformers(informers: Informers, { uses }: Notes): Informers {
  return {
    of<T extends KubeObject>(kind: KindRef<T>, options?: Parameters<Informers["of"]>[1]) {
      uses.push(useOf("list", kind, placeOf(options)), useOf("watch", kind, placeOf(options)));
      return informers.of(kind, options);
    },
  };
}

/** True when a rule allows the request. Source: Kubernetes `rbac/validation.RuleAllows`. */
export const isPermitted = (rules: readonly Permission[], use: ApiUse): boolean =>
  rules.some(
    (rule) =>
      namesKind(rule, use) &&
      (rule.namespace === undefined || rule.namespace === use.namespace) &&
      (rule.resourceNames === undefined || rule.resourceNames.includes(use.name)),
  );

const namesKind = ({ apiGroup, resources, verbs }: Permission, use: ApiUse): boolean =>
  apiGroup === use.apiGroup && resources.includes(use.resource) && verbs.some((verb) => verb === use.verb);

/** The request in words, with its place where rules allow it in others. */
export function describeUse(rules: readonly Permission[], use: ApiUse): string {
  const { verb, resource, namespace, name } = use;
  const near = rules.filter((rule) => namesKind(rule, use));
  if (near.length === 0) return `${verb} ${resource}`;
  const ofAny = near.some(({ resourceNames }) => resourceNames !== undefined) ? " without resourceNames" : "";
  const where = namespace === "" ? "all namespaces" : `namespace "${namespace}"`;
  return `${verb} ${resource}${name === "" ? ofAny : ` named "${name}"`} in ${where}`;
}
