import * as fc from "fast-check";
import * as protobuf from "protobufjs";

import { type Json, pointers, typeNamed } from "./encode.ts";

/** Without `omitempty`: JSON has them whatever their value is. Source: the `json` tags of k8s.io/api. */
const always = new Set(
  [
    "Node.metadata spec status",
    "NodeStatus.daemonEndpoints nodeInfo",
    "NodeCondition.type status lastHeartbeatTime lastTransitionTime",
    "NodeAddress.type address",
    "NodeDaemonEndpoints.kubeletEndpoint",
    "DaemonEndpoint.Port",
    "NodeSystemInfo.machineID systemUUID bootID kernelVersion osImage containerRuntimeVersion kubeletVersion kubeProxyVersion operatingSystem architecture",
    "ConfigMapNodeConfigSource.namespace name kubeletConfigKey",
    "AttachedVolume.name devicePath",
    "NodeRuntimeHandler.name",
    "Taint.key effect",
    "OwnerReference.kind name uid apiVersion",
  ].flatMap((line) => {
    const [type = "", names = ""] = line.split(".");
    return names.split(" ").map((name) => `${type}.${name}`);
  }),
);

/** Fields that the compaction drops. */
const dropped: ReadonlySet<string> = new Set(["ObjectMeta.managedFields", "NodeStatus.images"]);

const text = fc.oneof(
  fc.string({ unit: "binary", maxLength: 12 }),
  fc.string({ minLength: 60, maxLength: 150 }),
  fc.constantFrom("", "True", "Ready", "kubelet is posting ready status", "node.kubernetes.io/not-ready", "ä€😀"),
);
const key = fc.oneof(fc.constantFrom("cpu", "memory", "__proto__", "constructor", "topology.kubernetes.io/zone"), text);
const seconds = fc.oneof(
  fc.constantFrom(0, -1, 1_764_000_000),
  fc.integer({ min: -62_135_596_800, max: 253_402_300_799 }),
);
const time = seconds.map((each) => `${new Date(each * 1000).toISOString().slice(0, 19)}Z`);
const quantity = fc.constantFrom("0", "8", "7820m", "32867500Ki", "119703055367", "-1", "1e3");
const safe = fc.oneof(fc.constantFrom(0, 1, -1, 2 ** 31, -(2 ** 31), Number.MAX_SAFE_INTEGER), fc.maxSafeInteger());
const int32 = fc.oneof(fc.constantFrom(0, 10_250), fc.integer());

/** A message of that type as the API server writes it in JSON; `whole` with what the compaction drops. */
export function arbitraryOf(name: string, { whole = false } = {}): fc.Arbitrary<Json> {
  const fields = typeNamed(name).fieldsArray.filter(
    (field) => field.type !== "FieldsV1" && (whole || !dropped.has(`${name}.${field.name}`)),
  );
  const model = Object.fromEntries(fields.map((field) => [field.name, fieldOf(name, field, whole)]));
  const requiredKeys = fields.filter((field) => always.has(`${name}.${field.name}`)).map((field) => field.name);
  return fc.record(model, { requiredKeys });
}

function fieldOf(type: string, field: protobuf.Field, whole: boolean): fc.Arbitrary<unknown> {
  field.resolve();
  const { resolvedType } = field;
  const value =
    resolvedType instanceof protobuf.Type ? messageOf(resolvedType.name, whole) : (scalars[field.type] ?? text);
  if (field instanceof protobuf.MapField)
    return fc.dictionary(key, value, { minKeys: 1, maxKeys: 5, noNullPrototype: true });
  if (field.repeated) return fc.array(value, { minLength: 1, maxLength: 4 });
  const path = `${type}.${field.name}`;
  if (field.type === "Time") return always.has(path) ? fc.option(value) : value;
  if (always.has(path) || pointers.has(path) || resolvedType !== null) return value;
  return value.filter((each) => each !== "" && each !== 0 && each !== false);
}

const scalars: Readonly<Record<string, fc.Arbitrary<unknown>>> = { bool: fc.boolean(), int32, int64: safe };

const messageOf = (name: string, whole: boolean): fc.Arbitrary<unknown> =>
  name === "Time" ? time : name === "Quantity" ? quantity : arbitraryOf(name, { whole });
