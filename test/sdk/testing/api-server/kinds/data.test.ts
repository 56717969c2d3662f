import { expect, test } from "bun:test";

import type { Reply } from "../api-client.ts";
import { describeProtocol } from "../on-both.ts";

const megabyte = 1024 * 1024;

describeProtocol("ConfigMaps and Secrets", (protocol) => {
  const create = async (plural: string, object: object): Promise<Reply> => {
    const path = `/api/v1/namespaces/${await protocol.namespace()}/${plural}`;
    return protocol.api.send("POST", path, { metadata: { name: "x" }, ...object });
  };

  test("the values of a ConfigMap or Secret have at most a megabyte", async () => {
    const half = "x".repeat(megabyte / 2);
    const more = btoa(`${half}y`);
    expect((await create("configmaps", { data: { a: half, b: half } })).status).toBe(201);
    const tooLong = [
      await create("configmaps", { data: { a: half }, binaryData: { b: more } }),
      await create("secrets", { stringData: { a: half }, data: { b: more } }),
    ];
    expect(tooLong.map(({ status }) => status)).toEqual([422, 422]);
    for (const { body } of tooLong) expect(body.message).toContain(`may not be more than ${megabyte} bytes`);
    expect((await create("secrets", { data: { a: btoa(half), b: btoa(half) } })).status).toBe(201);
  });

  test("a Secret of a type has the keys of that type", async () => {
    const missing = async (type: string, data: object = {}): Promise<readonly string[]> => {
      const { status, body } = await create("secrets", { type, data });
      return status === 201 ? [] : (body.message.match(/[a-z]+\[[^\]]+\](?=: Required value)/gu) ?? [body.message]);
    };
    expect(await missing("kubernetes.io/tls", { "tls.crt": "" })).toEqual(["data[tls.key]"]);
    expect(await missing("kubernetes.io/tls", { "tls.crt": "", "tls.key": "" })).toEqual([]);
    expect(await missing("kubernetes.io/basic-auth")).toEqual(["data[username]", "data[password]"]);
    expect(await missing("kubernetes.io/basic-auth", { password: "eA==" })).toEqual([]);
    expect(await missing("kubernetes.io/ssh-auth")).toEqual(["data[ssh-privatekey]"]);
    expect(await missing("kubernetes.io/dockerconfigjson")).toEqual(["data[.dockerconfigjson]"]);
    expect(await missing("kubernetes.io/service-account-token")).toEqual([
      "annotations[kubernetes.io/service-account.name]",
    ]);
    expect(await missing("toString")).toEqual([]);
  });
});
