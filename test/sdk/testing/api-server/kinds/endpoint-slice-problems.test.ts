import { expect, test } from "bun:test";

import { merge, type Reply } from "../api-client.ts";
import { describeProtocol } from "../on-both.ts";

describeProtocol("endpoint slices", (protocol) => {
  const slices = async (): Promise<string> =>
    `/apis/discovery.k8s.io/v1/namespaces/${await protocol.namespace()}/endpointslices`;
  /** The fields that are invalid; empty for a slice that is stored. */
  const invalidIn = async (slice: object): Promise<readonly string[]> => {
    const sent = { metadata: { name: "s" }, addressType: "IPv4", endpoints: [], ...slice };
    return fieldsOf(await protocol.api.send("POST", await slices(), sent));
  };
  const fieldsOf = ({ status, body }: Reply): readonly string[] =>
    status < 300 ? [] : (body.details?.causes ?? []).map(({ field = "" }) => field);
  const endpoint = (...addresses: readonly string[]): object => ({ endpoints: [{ addresses }] });

  test("an EndpointSlice has a type of addresses that does not change", async () => {
    const untyped = await protocol.api.send("POST", await slices(), { metadata: { name: "s" }, endpoints: [] });
    expect(untyped.body.message).toContain("addressType: Required value");
    expect(await invalidIn({ addressType: "IP" })).toEqual(["addressType"]);
    const path = await slices();
    await protocol.api.done("POST", path, { metadata: { name: "s" }, addressType: "IPv4", endpoints: [] });
    const changed = await protocol.api.send("PATCH", `${path}/s`, { addressType: "IPv6" }, { contentType: merge });
    expect(fieldsOf(changed)).toEqual(["addressType"]);
  });

  test("each endpoint of an EndpointSlice has one to a hundred addresses of the type", async () => {
    expect(await invalidIn(endpoint("10.0.0.1", "10.0.0.2"))).toEqual([]);
    expect(await invalidIn({ addressType: "IPv6", ...endpoint("fd00::1") })).toEqual([]);
    expect(await invalidIn({ addressType: "FQDN", ...endpoint("a.example.com") })).toEqual([]);
    expect(await invalidIn(endpoint())).toEqual(["endpoints[0].addresses"]);
    expect(await invalidIn(endpoint("10.0.0.1", "web"))).toEqual(["endpoints[0].addresses[1]"]);
    expect(await invalidIn({ addressType: "IPv6", ...endpoint("we:b") })).toEqual(["endpoints[0].addresses[0]"]);
    expect(await invalidIn(endpoint("fd00::1"))).toEqual(["endpoints[0].addresses"]);
    expect(await invalidIn({ addressType: "IPv6", ...endpoint("10.0.0.1") })).toEqual(["endpoints[0].addresses"]);
    const many = Array.from({ length: 101 }, (_, index) => `10.0.0.${index}`);
    expect(await invalidIn(endpoint(...many))).toEqual(["endpoints[0].addresses"]);
  });

  test("the ports of an EndpointSlice have different names", async () => {
    const ports = (...names: readonly string[]): object => ({
      ports: names.map((name, index) => ({ name, port: 80 + index })),
    });
    expect(await invalidIn(ports("a", "b"))).toEqual([]);
    expect(await invalidIn(ports("a", "b", "a"))).toEqual(["ports[2].name"]);
  });
});
