import type { KubeObject } from "./kinds.ts";
import type { InformerHandler } from "./kube.ts";

/** Filter of the changes that reach a handler; an omitted predicate passes all. upstream: controller-runtime `predicate.Predicate`. */
export interface Predicate<T extends KubeObject = KubeObject> {
  added?(object: T): boolean;
  updated?(before: T, after: T): boolean;
  deleted?(last: T): boolean;
}

/** The handler for the changes that all predicates let pass. */
export const filtered = <T extends KubeObject>(
  handler: InformerHandler<T>,
  ...predicates: readonly Predicate<T>[]
): InformerHandler<T> => {
  const all = allOf(...predicates);
  return {
    added: (object) => void (all.added(object) && handler.added?.(object)),
    updated: (before, after) => void (all.updated(before, after) && handler.updated?.(before, after)),
    deleted: (last) => void (all.deleted(last) && handler.deleted?.(last)),
  };
};

/** upstream: `predicate.And`. */
export const allOf = <T extends KubeObject>(...predicates: readonly Predicate<T>[]): Required<Predicate<T>> => ({
  added: (object) => predicates.every((predicate) => predicate.added?.(object) ?? true),
  updated: (before, after) => predicates.every((predicate) => predicate.updated?.(before, after) ?? true),
  deleted: (last) => predicates.every((predicate) => predicate.deleted?.(last) ?? true),
});

/** upstream: `predicate.Or`. */
export const anyOf = <T extends KubeObject>(...predicates: readonly Predicate<T>[]): Required<Predicate<T>> => ({
  added: (object) => predicates.some((predicate) => predicate.added?.(object) ?? true),
  updated: (before, after) => predicates.some((predicate) => predicate.updated?.(before, after) ?? true),
  deleted: (last) => predicates.some((predicate) => predicate.deleted?.(last) ?? true),
});

/** Objects for which `holds` is true, before or after the change. upstream: `predicate.NewPredicateFuncs`. */
export const objectsWhere = <T extends KubeObject>(holds: (object: T) => boolean): Required<Predicate<T>> => ({
  added: holds,
  updated: (before, after) => holds(before) || holds(after),
  deleted: holds,
});

/** Updates of the spec, and the deletion of an object with finalizers. upstream: `GenerationChangedPredicate`. */
export const generationChanged: Predicate = {
  updated: (before, after) =>
    before.metadata?.generation !== after.metadata?.generation ||
    before.metadata?.deletionTimestamp !== after.metadata?.deletionTimestamp,
};

/** upstream: `LabelChangedPredicate`. */
export const labelsChanged: Predicate = {
  updated: (before, after) => !sameEntries(before.metadata?.labels, after.metadata?.labels),
};

/** upstream: `AnnotationChangedPredicate`. */
export const annotationsChanged: Predicate = {
  updated: (before, after) => !sameEntries(before.metadata?.annotations, after.metadata?.annotations),
};

type Entries = Readonly<Record<string, string>> | undefined;

function sameEntries(one: Entries = {}, other: Entries = {}): boolean {
  const names = Object.keys(one);
  return names.length === Object.keys(other).length && names.every((name) => one[name] === other[name]);
}
