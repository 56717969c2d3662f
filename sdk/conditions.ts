import { timestamp } from "./values.ts";

/** upstream: `metav1.Condition`. */
export interface Condition {
  readonly type: string;
  readonly status: "True" | "False" | "Unknown";
  /** One word in CamelCase, for programs. */
  readonly reason: string;
  /** For people; may be empty. */
  readonly message: string;
  /** The `metadata.generation` that the condition was set for. */
  readonly observedGeneration?: number;
  /** When the status last changed, in RFC 3339. */
  readonly lastTransitionTime: string;
}

/** The part of a condition that its owner decides. */
export type ConditionValue = Omit<Condition, "lastTransitionTime">;

/**
 * Adds a condition, or replaces the one of its type. `lastTransitionTime` changes only with the status. Returns the same
 * array when nothing changes, so that the caller can skip the write. upstream: `meta.SetStatusCondition`.
 */
export function setStatusCondition(
  conditions: readonly Condition[] | undefined,
  value: ConditionValue,
  nowMs: number,
): readonly Condition[] {
  const present = conditions ?? [];
  const before = findStatusCondition(present, value.type);
  const at = timestamp(nowMs);
  const next = { ...value, lastTransitionTime: before?.status === value.status ? before.lastTransitionTime : at };
  if (before === undefined) return [...present, next];
  const isSame =
    before.status === next.status &&
    before.reason === next.reason &&
    before.message === next.message &&
    before.observedGeneration === next.observedGeneration;
  return isSame ? present : present.map((condition) => (condition.type === value.type ? next : condition));
}

/** upstream: `meta.FindStatusCondition`. */
export const findStatusCondition = <One extends Pick<Condition, "type">>(
  conditions: readonly One[] | undefined,
  type: string,
): One | undefined => conditions?.find((condition) => condition.type === type);

/** upstream: `meta.IsStatusConditionTrue`. */
export const isStatusConditionTrue = (conditions: readonly Condition[] | undefined, type: string): boolean =>
  findStatusCondition(conditions, type)?.status === "True";

/** The conditions without that type; the same array if none has it. upstream: `meta.RemoveStatusCondition`. */
export function removeStatusCondition(conditions: readonly Condition[], type: string): readonly Condition[] {
  const others = conditions.filter((condition) => condition.type !== type);
  return others.length === conditions.length ? conditions : others;
}
