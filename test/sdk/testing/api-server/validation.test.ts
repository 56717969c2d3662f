import { expect, test } from "bun:test";

import { apiVersionOf, defineKind } from "cloud-controller-host/sdk";

import { merge, type Reply } from "./api-client.ts";
import { describeProtocol } from "./on-both.ts";

const gadget = defineKind({
  group: "protocol.example.com",
  version: "v1",
  kind: "Gadget",
  plural: "gadgets",
  namespaced: true,
});

describeProtocol(
  "the metadata of an object",
  (protocol) => {
    const configMap = async (metadata: object): Promise<Reply> => {
      const path = `/api/v1/namespaces/${await protocol.namespace()}/configmaps`;
      return protocol.api.send("POST", path, { metadata: { name: "c", ...metadata } });
    };
    const owner = (name: string, controller?: boolean): object => ({
      apiVersion: "v1",
      kind: "Node",
      name,
      uid: `uid-${name}`,
      ...(controller !== undefined && { controller }),
    });

    test("a finalizer of a kind of Kubernetes without a domain is invalid, except for the standard ones", async () => {
      const refused = await configMap({ finalizers: ["example.com/mine", "mine"] });
      expect(refused.status).toBe(422);
      expect(refused.body).toMatchObject({ details: { causes: [{ field: "metadata.finalizers[1]" }] } });
      expect((await configMap({ finalizers: ["kubernetes", "orphan", "example.com/mine"] })).status).toBe(201);
      const path = `/api/v1/nodes/${protocol.name("node")}`;
      await protocol.api.done("POST", "/api/v1/nodes", { metadata: { name: path.split("/").at(-1) } });
      const added = await protocol.api.send(
        "PATCH",
        path,
        { metadata: { finalizers: ["mine"] } },
        { contentType: merge },
      );
      expect(added.status).toBe(422);
    });

    test("a finalizer of a custom kind needs no domain, but the characters of a name", async () => {
      const path = `/apis/${apiVersionOf(gadget)}/namespaces/${await protocol.namespace()}/gadgets`;
      const create = async (finalizer: string): Promise<number> => {
        const metadata = { generateName: "g-", finalizers: [finalizer] };
        const object = { apiVersion: apiVersionOf(gadget), kind: gadget.kind, metadata };
        return (await protocol.api.send("POST", path, object)).status;
      };
      expect([await create("mine"), await create("not a name")]).toEqual([201, 422]);
    });

    test("an owner reference has a kind, a name and a uid; at most one is the controller, and none is an Event", async () => {
      expect((await configMap({ ownerReferences: [owner("a", true), owner("b", false), owner("c")] })).status).toBe(
        201,
      );
      const empty = await configMap({ ownerReferences: [{ ...owner("a"), uid: "" }, {}] });
      expect(empty.status).toBe(422);
      const fields = ["uid", "apiVersion", "kind", "name", "uid"].map((field) => ({
        field: `metadata.ownerReferences.${field}`,
      }));
      expect(empty.body).toMatchObject({ details: { causes: fields } });
      const two = await configMap({ ownerReferences: [owner("a", true), owner("b", true)] });
      expect(two.body.message).toContain(
        'Only one reference can have Controller set to true. Found "true" in references for Node/a and Node/b',
      );
      const event = await configMap({ ownerReferences: [{ ...owner("a"), kind: "Event" }] });
      expect(event.body.message).toContain("Kind=Event is disallowed from being an owner");
    });
  },
  [gadget],
);
