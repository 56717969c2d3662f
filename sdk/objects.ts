import { isNotFound } from "./errors.ts";
import { apiVersionOf, keyOf, type KindRef, type KubeObject, type ObjectMeta } from "./kinds.ts";
import type { KubeClient, ObjectName } from "./kube.ts";

/** upstream: `metav1.OwnerReference`. */
export type OwnerReference = NonNullable<ObjectMeta["ownerReferences"]>[number];

/** True once the object was deleted and only its finalizers keep it. */
export const isBeingDeleted = ({ metadata }: KubeObject): boolean => metadata?.deletionTimestamp !== undefined;

/**
 * Order of two resourceVersions of one kind, which are comparable integers (KEP-5504); undefined where one of them is not.
 * upstream: `resourceversion.CompareResourceVersion`.
 */
export function compareResourceVersion(one = "", other = ""): -1 | 0 | 1 | undefined {
  if (!/^\d+$/.test(one) || !/^\d+$/.test(other)) return undefined;
  const [left, right] = [BigInt(one), BigInt(other)];
  return left === right ? 0 : left < right ? -1 : 1;
}

/** upstream: `controllerutil.ContainsFinalizer`. */
export const hasFinalizer = ({ metadata }: KubeObject, finalizer: string): boolean =>
  metadata?.finalizers?.includes(finalizer) ?? false;

type Patching = Pick<KubeClient, "patch">;

/**
 * Adds the finalizer, before the first write outside of the cluster. It has a domain, such as `example.com/cleanup`: the API
 * server refuses others for its own kinds. Returns the object that has it: the same one, without a
 * request, where it has it already or is being deleted. A change by another writer is a 409; throw it, and the key is retried.
 */
export async function ensureFinalizer<T extends KubeObject>(
  client: Patching,
  kind: KindRef<T>,
  object: T,
  finalizer: string,
): Promise<T> {
  if (hasFinalizer(object, finalizer) || isBeingDeleted(object)) return object;
  const finalizers = [...(object.metadata?.finalizers ?? []), finalizer];
  return client.patch(kind, nameOf(kind, object), "merge", finalizersPatch(object, finalizers));
}

/** Removes the finalizer, after the last write outside of the cluster. An object that is gone needs none. */
export async function removeFinalizer<T extends KubeObject>(
  client: Patching,
  kind: KindRef<T>,
  object: T,
  finalizer: string,
): Promise<void> {
  if (!hasFinalizer(object, finalizer)) return;
  const finalizers = (object.metadata?.finalizers ?? []).filter((name) => name !== finalizer);
  try {
    await client.patch(kind, nameOf(kind, object), "merge", finalizersPatch(object, finalizers));
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}

/** A merge patch replaces the list: the version guards against the loss of another writer's finalizer. */
const finalizersPatch = ({ metadata }: KubeObject, finalizers: readonly string[]) => ({
  metadata: { finalizers, uid: metadata?.uid, resourceVersion: metadata?.resourceVersion },
});

const nameOf = (kind: KindRef, { metadata }: KubeObject): ObjectName => ({
  name: metadata?.name ?? "",
  ...(kind.namespaced && { namespace: metadata?.namespace }),
});

/**
 * The object with a reference to its controller: when that one is deleted, the garbage collector deletes the object. Throws
 * when another controller owns it, or when the owner is in another namespace. An owner that was recreated under its name
 * takes the place of the former one.
 * upstream: `controllerutil.SetControllerReference`.
 */
export function withControllerReference<T extends KubeObject>(object: T, ownerKind: KindRef, owner: KubeObject): T {
  const reference = { ...referenceTo(ownerKind, owner, object), controller: true, blockOwnerDeletion: true };
  const current = controllerOf(object);
  if (current !== undefined && !isSameOwner(current, reference))
    throw new TypeError(`${keyOf(object)} is already controlled by ${current.kind} ${current.name}`);
  return withReference(object, reference);
}

/** The object with a reference to one of several owners. upstream: `controllerutil.SetOwnerReference`. */
export const withOwnerReference = <T extends KubeObject>(object: T, ownerKind: KindRef, owner: KubeObject): T =>
  withReference(object, referenceTo(ownerKind, owner, object));

function referenceTo(ownerKind: KindRef, { metadata: owner = {} }: KubeObject, object: KubeObject): OwnerReference {
  const { name, uid } = owner;
  if (!name || !uid) throw new TypeError(`the owner of ${keyOf(object)} has no name or no uid`);
  if (ownerKind.namespaced && owner.namespace !== object.metadata?.namespace)
    throw new TypeError(`the owner of ${keyOf(object)} is in another namespace: ${owner.namespace}/${name}`);
  return { apiVersion: apiVersionOf(ownerKind), kind: ownerKind.kind, name, uid };
}

/** In its place, where it is: two controllers that compare what they have with what they want would each move theirs. */
function withReference<T extends KubeObject>(object: T, reference: OwnerReference): T {
  const present = object.metadata?.ownerReferences ?? [];
  const place = present.findIndex((other) => isSameOwner(other, reference));
  const ownerReferences = place < 0 ? [...present, reference] : present.with(place, reference);
  return { ...object, metadata: { ...object.metadata, ownerReferences } };
}

/** By group, kind and name: a recreated owner has another UID, and its kind may be read in another version. */
const isSameOwner = (one: OwnerReference, other: OwnerReference): boolean =>
  groupOf(one) === groupOf(other) && one.kind === other.kind && one.name === other.name;

const groupOf = ({ apiVersion }: OwnerReference): string =>
  apiVersion.includes("/") ? (apiVersion.split("/", 1)[0] ?? "") : "";

/** upstream: `metav1.GetControllerOf`. */
export const controllerOf = ({ metadata }: KubeObject): OwnerReference | undefined =>
  metadata?.ownerReferences?.find(({ controller }) => controller === true);

/** upstream: `metav1.IsControlledBy`. */
export const isControlledBy = (object: KubeObject, { metadata: owner }: KubeObject): boolean =>
  owner?.uid !== undefined && controllerOf(object)?.uid === owner.uid;
