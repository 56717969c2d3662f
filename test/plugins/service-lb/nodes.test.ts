import { describe, expect, test } from "bun:test";

import { changesNodeSets, takesTraffic } from "../../../plugins/service-lb/nodes.ts";
import { aNode, autoscalerTaint, excluded, type NodeFields, otherTaint } from "./objects.ts";

const pid = { providerID: "providerID" };
const ready = { ready: "True" } as const;
const notReady = { ready: "False" } as const;

/** Upstream's test rows set readiness too, but upstream's code ignores it, and so does ours. */
const respected: readonly (readonly [string, NodeFields, boolean])[] = [
  ["providerID set, ready", { ...pid, ...ready }, true],
  ["no providerID, ready", ready, true],
  ["providerID set, ready, empty labels", { ...pid, ...ready, labels: {} }, true],
  ["ready, exclude label empty", { ...ready, labels: excluded("") }, false],
  ['ready, exclude label "false"', { ...ready, labels: excluded("false") }, true],
  ['ready, exclude label "true"', { ...ready, labels: excluded("true") }, false],
  ['ready, exclude label "foo"', { ...ready, labels: excluded("foo") }, false],
  ["ready, autoscaler taint", { ...ready, taints: [autoscalerTaint] }, false],
];

describe("the predicates of nodes", () => {
  test.each(respected)("%s", (_name, fields, expected) => {
    expect(takesTraffic(aNode("node", fields))).toBe(expected);
  });
});

describe("a node receives traffic", () => {
  test.each([
    ["nothing", {}],
    ["not ready", notReady],
    ["ready", ready],
  ] as const)("whether or not it is ready: %s", (_name, fields) => {
    expect(takesTraffic(aNode("node", fields))).toBe(true);
  });

  test.each(["0", "f", "F", "false", "FALSE", "False"])("despite the exclusion label with the value %s", (value) => {
    expect(takesTraffic(aNode("node", { labels: excluded(value) }))).toBe(true);
  });

  test.each(["1", "t", "T", "true", "TRUE", "True", "", "fAlse", "no"])(
    "a node with the exclusion label %p receives no traffic",
    (value) => {
      expect(takesTraffic(aNode("node", { labels: excluded(value) }))).toBe(false);
    },
  );

  test("a node receives traffic until it is being deleted, whatever its other taints", () => {
    expect(takesTraffic(aNode("node", { taints: [otherTaint] }))).toBe(true);
    expect(takesTraffic(aNode("node", { deletionTimestamp: "2026-01-01T00:00:00Z" }))).toBe(false);
  });
});

type Change = readonly [name: string, before: NodeFields, after: NodeFields];

const tainted = { taints: [autoscalerTaint] };
const out = { labels: excluded() };
const other = { taints: [otherTaint] };
const label = { labels: { "example.com/other": "1" } };
const otherT = { otherCondition: "True" } as const;
const otherF = { otherCondition: "False" } as const;
const moved = { providerID: "providerID-2" };

/** The same change of provider IDs and exclusion beside some other fact that holds before and after. */
const beside = (fact: string, fields: NodeFields): readonly Change[] => [
  [`${fact}, excluded F->T`, fields, { ...fields, ...out }],
  [`${fact}, excluded T->F`, { ...fields, ...out }, fields],
  [`${fact}, providerID set F->T`, fields, { ...fields, ...pid }],
  [`${fact}, providerID set T->F`, { ...fields, ...pid }, fields],
  [`${fact}, providerID change`, { ...fields, ...pid }, { ...fields, ...moved }],
];
const both = (name: string, before: NodeFields, after: NodeFields, fixed: NodeFields): readonly Change[] => [
  [`${name} F->T`, { ...fixed, ...before }, { ...fixed, ...after }],
  [`${name} T->F`, { ...fixed, ...after }, { ...fixed, ...before }],
];

const individual = {
  sync: [
    ["excluded F->T", {}, out],
    ["excluded changed T->F", out, {}],
    ["providerID set F -> T", {}, pid],
    ["providerID set T-> F", pid, {}],
    ["providerID change", pid, moved],
    ["internal address F->T", pid, { ...pid, internalIPs: ["10.0.0.4"] }],
    ["internal address T->F", { ...pid, internalIPs: ["10.0.0.4"] }, pid],
    ["internal address change", { ...pid, internalIPs: ["10.0.0.4"] }, { ...pid, internalIPs: ["10.0.0.5"] }],
    ["second internal address F->T", { internalIPs: ["10.0.0.4"] }, { internalIPs: ["10.0.0.4", "fd00::4"] }],
  ],
  noSync: [
    ["nothing changed", ready, ready],
    ["internal address unchanged", { internalIPs: ["10.0.0.4"] }, { ...ready, internalIPs: ["10.0.0.4"] }],
    ["external address F->T", { internalIPs: ["10.0.0.4"] }, { internalIPs: ["10.0.0.4"], externalIP: "20.0.0.4" }],
    ["excluded changed T->T", { labels: excluded() }, { labels: excluded("true") }],
    ["other taint F->T", {}, other],
    ["other taint T->F", other, {}],
    ["other label changed F->T", {}, label],
    ["other label changed T->F", label, {}],
    ["readiness changed F->F", notReady, notReady],
    ["readiness changed F->unset", notReady, {}],
    ["readiness changed unset->F", {}, notReady],
    ["readiness changed unset->unset", {}, {}],
    ["ready F, other condition changed F->T", { ...notReady, ...otherF }, { ...notReady, ...otherT }],
    ["ready F, other condition changed T->F", { ...notReady, ...otherT }, { ...notReady, ...otherF }],
    ["ready T, other condition changed F->T", { ...ready, ...otherF }, { ...ready, ...otherT }],
    ["ready T, other condition changed T->F", { ...ready, ...otherT }, { ...ready, ...otherF }],
    ["deletionTimestamp F -> T", {}, { deletionTimestamp: "2026-01-01T00:00:00Z" }],
  ],
} as const satisfies Record<string, readonly Change[]>;

const compounded = {
  sync: [
    ...beside("tainted T", tainted),
    ["excluded T, providerID set F->T", out, { ...out, ...pid }],
    ["excluded T, providerID set T->F", { ...out, ...pid }, out],
    ["excluded T, providerID change", { ...out, ...pid }, { ...out, ...moved }],
    ...beside("ready F", notReady),
    ["providerID unset, excluded F->T", {}, out],
    ["providerID unset, excluded T->F", out, {}],
  ],
  noSync: [
    ...both("tainted T, ready", notReady, ready, { ...tainted, ...pid }),
    ...both("excluded T, tainted", {}, tainted, { ...out, ...pid }),
    ...both("excluded T, ready", notReady, ready, { ...out, ...pid }),
    ...both("ready F, tainted", {}, tainted, { ...notReady, ...pid }),
    ...both("providerID unset, ready", notReady, ready, {}),
    ...both("providerID unset, tainted", {}, tainted, {}),
  ],
} as const satisfies Record<string, readonly Change[]>;

const changes = ([, before, after]: Change): boolean => changesNodeSets(aNode("node", before), aNode("node", after));

describe.each([
  ["Test_shouldSyncUpdatedNode_individualPredicates", individual],
  ["Test_shouldSyncUpdatedNode_compoundedPredicates", compounded],
] as const)("%s", (_name, { sync, noSync }) => {
  test.each(sync.map((row: Change) => [row[0], row] as const))("sync: %s", (_row, row) => {
    expect(changes(row)).toBe(true);
  });
  test.each(noSync.map((row: Change) => [row[0], row] as const))("no sync: %s", (_row, row) => {
    expect(changes(row)).toBe(false);
  });
});
