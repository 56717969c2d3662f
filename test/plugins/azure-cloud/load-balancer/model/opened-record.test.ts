import { expect, test } from "bun:test";

import type { Service } from "cloud-controller-host/sdk";

import {
  hasRecord,
  recordedAddresses,
  recordFor,
} from "../../../../../plugins/azure-cloud/load-balancer/model/opened-record.ts";
import { recordOf } from "../fixtures.ts";

const recorded = (addresses: string): Service => ({ status: { conditions: [recordOf(addresses)] } });
const ready = { ...recordOf("203.0.113.9"), type: "LoadBalancerReady" };
const later = "2026-02-02T00:00:00Z";

test.each<readonly [string, Service, readonly string[]]>([
  ["without a status", {}, []],
  ["with another condition", { status: { conditions: [ready] } }, []],
  ["with an empty record", recorded(""), []],
  ["with one address", recorded("203.0.113.1"), ["203.0.113.1"]],
  ["with two families, as people write them", recorded(" 203.0.113.1 ,2001:DB8::1,"), ["203.0.113.1", "2001:db8::1"]],
  ["with an address twice", recorded("203.0.113.1, 203.0.113.1"), ["203.0.113.1"]],
  ["with texts that are not addresses", recorded("web, 203.0.113.0/24, *, 203.0.113.1"), ["203.0.113.1"]],
])("the recorded addresses of a Service %s", (_, service, expected) => {
  expect(recordedAddresses(service)).toEqual([...expected]);
});

test("a record names its addresses in one order, for people and for the next process", () => {
  const record = recordFor({}, ["203.0.113.2", "203.0.113.1"], later);
  expect(record).toEqual({ ...recordOf("203.0.113.1, 203.0.113.2"), lastTransitionTime: later });
});

test("a record keeps the time since when addresses are open besides those of the load balancer", () => {
  expect(recordFor(recorded("203.0.113.1"), ["203.0.113.2"], later)).toEqual(recordOf("203.0.113.2"));
});

test("a record is deleted without addresses", () => {
  expect(recordFor(recorded("203.0.113.1"), [], later)).toEqual({ type: "AdditionalAddressesOpen", $patch: "delete" });
});

test.each<readonly [string, Service, readonly string[], boolean]>([
  ["has no record and needs none", {}, [], true],
  ["has the same addresses in it", recorded("203.0.113.1, 203.0.113.2"), ["203.0.113.2", "203.0.113.1"], true],
  ["has another one in it", recorded("203.0.113.1"), ["203.0.113.2"], false],
  ["needs none any more", recorded("203.0.113.1"), [], false],
])("whether the record of a Service is right that %s", (_, service, addresses, expected) => {
  expect(hasRecord(service, addresses)).toBe(expected);
});
