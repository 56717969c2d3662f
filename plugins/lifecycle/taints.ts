import { type Taint, taints } from "cloud-controller-host/sdk";

/** Keeps pods off a node whose machine is shut down. */
export const shutdownTaint: Taint = { key: taints.shutdown, effect: "NoSchedule" };

/** One taint is another's counterpart when key and effect agree; the value does not count. */
const isSame = (one: Taint, other: Taint): boolean => one.key === other.key && one.effect === other.effect;

export const hasTaint = (list: readonly Taint[], taint: Taint): boolean => list.some((other) => isSame(other, taint));

/** The list with the taint: in the place of its counterpart, else at the end. Undefined when it is there already. */
export function withTaint(list: readonly Taint[], taint: Taint): readonly Taint[] | undefined {
  const present = list.find((other) => isSame(other, taint));
  if (present === undefined) return [...list, taint];
  if (present.value === taint.value && present.timeAdded === taint.timeAdded) return undefined;
  return list.map((other) => (other === present ? taint : other));
}

/** The list without the taint; undefined when it is not there. */
export function withoutTaint(list: readonly Taint[], taint: Taint): readonly Taint[] | undefined {
  return hasTaint(list, taint) ? list.filter((other) => !isSame(other, taint)) : undefined;
}
