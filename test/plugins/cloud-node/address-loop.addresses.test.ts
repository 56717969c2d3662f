import { describe, expect, test } from "bun:test";

import type { Node, NodeAddress } from "cloud-controller-host/sdk";
import * as fc from "fast-check";

import { addressesDiffer, wantedAddresses, withoutDuplicates } from "../../../plugins/cloud-node/address-loop.ts";
import { processorMs } from "../../kit/processor-time.ts";

const internal = (address: string): NodeAddress => ({ type: "InternalIP", address });
const external = (address: string): NodeAddress => ({ type: "ExternalIP", address });
const hostname = (address: string): NodeAddress => ({ type: "Hostname", address });

describe("changed addresses", () => {
  const pair = [internal("10.0.0.1"), external("132.143.154.163")];
  const rows: readonly (readonly [string, readonly NodeAddress[], readonly NodeAddress[], boolean])[] = [
    ["is not found between the same addresses", pair, pair, false],
    ["is found for another ExternalIP", pair, [internal("10.0.0.1"), external("132.143.154.164")], true],
    ["is found for a Hostname that the new list lacks", [...pair, hostname("h")], pair, true],
    ["is found for a Hostname that the old list lacks", pair, [...pair, hostname("h")], true],
    ["is found for swapped types", pair, [external("10.0.0.1"), internal("132.143.154.163")], true],
  ];
  for (const [name, before, after, want] of rows) test(name, () => expect(addressesDiffer(before, after)).toBe(want));
});

describe("a change of addresses", () => {
  const dual = [internal("10.0.0.1"), internal("fd00::1"), hostname("h")];

  test("is not found between equal dual-stack lists", () => {
    expect(addressesDiffer(dual, [...dual])).toBe(false);
  });

  test("includes the order within one type, because the first address is the primary one", () => {
    expect(addressesDiffer(dual, [internal("fd00::1"), internal("10.0.0.1"), hostname("h")])).toBe(true);
  });

  test("does not include the order of types", () => {
    const address = fc.record({ type: fc.constantFrom("InternalIP", "ExternalIP", "Hostname"), address: fc.ipV4() });
    fc.assert(
      fc.property(fc.array(address), (list) => {
        const sorted = list.toSorted((a, b) => (a.type < b.type ? -1 : a.type > b.type ? 1 : 0));
        return !addressesDiffer(list, sorted) && !addressesDiffer(list, list);
      }),
      { seed: 20260801, numRuns: 300 },
    );
  });
});

describe("adding addresses", () => {
  const existing = [external("1.1.1.1"), internal("10.1.1.1")];
  const rows: readonly (readonly [string, readonly NodeAddress[], readonly NodeAddress[], readonly NodeAddress[]])[] = [
    ["add no addresses to empty node addresses", [], [], []],
    [
      "add new node addresses to empty existing addresses",
      [],
      [external("1.1.1.1"), hostname("localhost")],
      [external("1.1.1.1"), hostname("localhost")],
    ],
    ["add a duplicate node address", [], [external("1.1.1.1"), external("1.1.1.1")], [external("1.1.1.1")]],
    [
      "add 1 new and 1 duplicate address",
      existing,
      [external("1.1.1.1"), hostname("localhost")],
      [...existing, hostname("localhost")],
    ],
  ];
  for (const [name, before, added, want] of rows)
    test(name, () => expect(withoutDuplicates([...before, ...added])).toEqual(want));
});

describe("the addresses written to a node", () => {
  const node: Node = { status: { addresses: [internal("10.0.0.9"), hostname("kubelets-name")] } };

  test("are none when the cloud returns none", () => {
    expect(wantedAddresses(node, [])).toBeUndefined();
  });

  test("end with kubelet's hostname when the cloud returns none", () => {
    expect(wantedAddresses(node, [internal("10.0.0.1")])).toEqual([internal("10.0.0.1"), hostname("kubelets-name")]);
  });

  test("use the cloud's hostname when it returns one", () => {
    const fromCloud = [hostname("clouds-name"), internal("10.0.0.1")];
    expect(wantedAddresses(node, fromCloud)).toEqual(fromCloud);
  });

  test("are unique, because the API rejects a status with duplicates", () => {
    const fromCloud = [internal("10.0.0.1"), internal("10.0.0.1"), hostname("h")];
    expect(wantedAddresses(node, fromCloud)).toEqual([internal("10.0.0.1"), hostname("h")]);
  });
});

test("thousands of host names that a kubelet has reported are compared in little time", () => {
  const reported = Array.from({ length: 30_000 }, (_, index) => ({ type: "Hostname", address: `host-${index}` }));
  const compare = (): void => expect(withoutDuplicates([...reported, ...reported])).toEqual(reported);
  expect(processorMs(compare)).toBeLessThan(1_000);
});
