import { kinds, type Node, readyStatus } from "cloud-controller-host/sdk";

import { ageColumn, type Column, defineResource, nameColumn } from "../resource.ts";
import { node as schema } from "../schema/node.ts";
import { problemsOfNode } from "./node-problems.ts";

const rolePrefix = "node-role.kubernetes.io/";

function rolesOf(node: Node): string {
  const roles = Object.entries(node.metadata?.labels ?? {}).flatMap(([key, value]) => {
    if (key.startsWith(rolePrefix)) return [key.slice(rolePrefix.length)];
    return key === "kubernetes.io/role" ? [value] : [];
  });
  return (
    roles
      .filter((role) => role !== "")
      .toSorted()
      .join(",") || "<none>"
  );
}

function statusOf(node: Node): string {
  const ready = readyStatus(node);
  const words = [ready === undefined ? "Unknown" : ready === "True" ? "Ready" : "NotReady"];
  if (node.spec?.unschedulable) words.push("SchedulingDisabled");
  return words.join(",");
}

const addressOf =
  (type: string) =>
  (node: Node): string =>
    node.status?.addresses?.find((address) => address.type === type)?.address ?? "<none>";

const infoOf =
  (key: "kubeletVersion" | "osImage" | "kernelVersion" | "containerRuntimeVersion") =>
  (node: Node): string =>
    node.status?.nodeInfo?.[key] ?? "";

const orUnknown =
  (read: (node: Node) => string) =>
  (node: Node): string =>
    read(node) || "<unknown>";

/** Keeps both fields consistent: `podCIDR` is the first of `podCIDRs`. */
function withPodCIDRs(node: Node): Node {
  const { podCIDR, podCIDRs } = node.spec ?? {};
  const first = podCIDR ?? podCIDRs?.[0];
  if (first === undefined || (podCIDR === first && podCIDRs?.[0] === first)) return node;
  return { ...node, spec: { ...node.spec, podCIDR: first, podCIDRs: podCIDRs?.[0] === first ? podCIDRs : [first] } };
}

const columns: readonly Column<Node>[] = [
  nameColumn,
  { name: "Status", cell: statusOf },
  { name: "Roles", cell: rolesOf },
  ageColumn,
  { name: "Version", cell: infoOf("kubeletVersion") },
  { name: "Internal-IP", wide: true, cell: addressOf("InternalIP") },
  { name: "External-IP", wide: true, cell: addressOf("ExternalIP") },
  { name: "OS-Image", wide: true, cell: orUnknown(infoOf("osImage")) },
  { name: "Kernel-Version", wide: true, cell: orUnknown(infoOf("kernelVersion")) },
  { name: "Container-Runtime", wide: true, cell: orUnknown(infoOf("containerRuntimeVersion")) },
];

export const node = defineResource<Node>({
  kind: kinds.Node,
  singular: "node",
  shortNames: ["no"],
  schema,
  status: true,
  statusOnCreate: true,
  columns,
  fields: ({ spec }) => ({ "spec.unschedulable": String(spec?.unschedulable ?? false) }),
  prepare: withPodCIDRs,
  problems: problemsOfNode,
});
