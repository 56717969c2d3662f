import { expect, test } from "bun:test";

import {
  internalAddresses,
  memberAddress,
} from "../../../../../../plugins/azure-cloud/load-balancer/plan/draft/nodes.ts";

test("the internal addresses of a node are those of its status that are IP addresses, in their order", () => {
  const addresses = ["fd00::4", "10.240.0.4", "node-0.internal", "10.240.0.5"].map((address) => ({
    type: "InternalIP",
    address,
  }));
  const node = { status: { addresses: [{ type: "ExternalIP", address: "20.0.0.1" }, ...addresses] } };
  expect(internalAddresses(node)).toEqual(["fd00::4", "10.240.0.4", "10.240.0.5"]);
  expect(internalAddresses(node, "IPv4")).toEqual(["10.240.0.4", "10.240.0.5"]);
  expect(internalAddresses(node, "IPv6")).toEqual(["fd00::4"]);
  expect(internalAddresses({}, "IPv6")).toEqual([]);
});

test("the address of a node in pools is the first internal one of the family", () => {
  const addresses = ["fd00::4", "10.240.0.5", "10.240.0.4", "fd00::5"].map((address) => ({
    type: "InternalIP",
    address,
  }));
  const node = { status: { addresses } };
  expect([memberAddress(node, "IPv4"), memberAddress(node, "IPv6")]).toEqual(["10.240.0.5", "fd00::4"]);
  expect(memberAddress({ status: { addresses: addresses.slice(0, 1) } }, "IPv4")).toBeUndefined();
});
