import { describe, expect, test } from "bun:test";

import {
  type ControllerContext,
  defineController,
  keyOf,
  kinds,
  messageOf,
  type Permission,
} from "cloud-controller-host/sdk";
import { controllerConformance } from "cloud-controller-host/sdk/testing";

import { controllerHarness } from "../../../host/sandbox/testing/harness.ts";

const place = { namespace: "kube-system", name: "report" };
const configMaps = { apiGroup: "", resources: ["configmaps"] } as const;
const nodes: Permission = { apiGroup: "", resources: ["nodes"], verbs: ["list", "watch"] };

/** Problem of a controller that does `work` for each node and has these permissions beside those for nodes; undefined without one. */
async function problemOf(
  work: (context: ControllerContext, node: string) => Promise<unknown>,
  permissions: readonly Permission[],
  init: (context: ControllerContext) => unknown = () => undefined,
): Promise<string | undefined> {
  const plugin = defineController({
    name: "report-controller",
    permissions: [nodes, ...permissions],
    construct: () => (context) => {
      init(context);
      const queue = context.workqueue("reports");
      context.informers.of(kinds.Node).handle({ added: (node) => queue.add(keyOf(node)) });
      const sync = async (key: string): Promise<void> => void (await work(context, key));
      return { run: (signal) => queue.process({ workers: 1, signal, sync }) };
    },
  });
  const suite = controllerConformance(plugin, controllerHarness());
  const found = suite.find(({ name }) => name === "declares every permission that it uses");
  return found?.run().then(() => undefined, messageOf);
}

const apply = ({ client }: ControllerContext): Promise<unknown> =>
  client.patch(kinds.ConfigMap, place, "apply", {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: place,
    data: { a: "1" },
  });
const create = ({ client }: ControllerContext, node: string): Promise<unknown> =>
  client.create(kinds.ConfigMap, { metadata: { ...place, name: node } });
const patch = ({ client }: ControllerContext): Promise<unknown> =>
  client.patch(kinds.ConfigMap, place, "merge", { data: { a: "1" } });

describe("the suite reports as a missing permission", () => {
  test("the creation of an object by an apply", async () => {
    expect(await problemOf(apply, [{ ...configMaps, verbs: ["patch"] }])).toBe("permissions lacks create configmaps");
    expect(await problemOf(apply, [{ ...configMaps, verbs: ["patch", "create"] }])).toBeUndefined();
  });

  test("none for an apply of the status of a missing object, which creates nothing", async () => {
    const node = { apiVersion: "v1", kind: "Node", metadata: { name: "missing" }, status: { phase: "Pending" } };
    const work = ({ client }: ControllerContext): Promise<unknown> =>
      client.patch(kinds.Node, node.metadata, "apply", node, { subresource: "status" }).catch(() => undefined);
    expect(await problemOf(work, [{ apiGroup: "", resources: ["nodes/status"], verbs: ["patch"] }])).toBeUndefined();
  });

  test("a request outside of the namespace of a permission", async () => {
    const inSystem = { ...configMaps, verbs: ["create", "list", "watch"], namespace: place.namespace } as const;
    expect(await problemOf(create, [{ ...inSystem, namespace: "default" }])).toBe(
      'permissions lacks create configmaps in namespace "kube-system"',
    );
    const everywhere = (context: ControllerContext): unknown => context.informers.of(kinds.ConfigMap);
    expect(await problemOf(create, [inSystem], everywhere)).toBe(
      "permissions lacks list configmaps in all namespaces, watch configmaps in all namespaces",
    );
    const there = (context: ControllerContext): unknown =>
      context.informers.of(kinds.ConfigMap, { namespace: place.namespace });
    expect(await problemOf(create, [inSystem], there)).toBeUndefined();
  });

  test("a request for an object that resourceNames do not name, or for a collection", async () => {
    const oneReport = {
      ...configMaps,
      verbs: ["patch", "create", "list", "watch"],
      resourceNames: [place.name],
    } as const;
    expect(await problemOf(patch, [{ ...oneReport, resourceNames: ["other"] }])).toBe(
      'permissions lacks patch configmaps named "report" in namespace "kube-system"',
    );
    expect(await problemOf(patch, [oneReport])).toBeUndefined();
    expect(await problemOf(create, [oneReport])).toBe(
      'permissions lacks create configmaps without resourceNames in namespace "kube-system"',
    );
    const byName = (context: ControllerContext): unknown =>
      context.informers.of(kinds.ConfigMap, { fieldSelector: `metadata.name=${place.name}` });
    expect(await problemOf(patch, [oneReport], byName)).toBeUndefined();
  });
});
