import { readdir } from "node:fs/promises";
import { basename, join } from "node:path";

import type { NodeAddress, NodeCondition, Service } from "cloud-controller-host/sdk";

import type { JsonObject } from "../../../plugins/azure-cloud/json.ts";

const ownDirectory = join(import.meta.dir, "..");

/** Recorded cases of the Go provider; others of the same format can be run with `GOLDEN_DIR`. */
const directory = process.env["GOLDEN_DIR"] ?? ownDirectory;

export interface RecordedNode {
  readonly name: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly providerID: string;
  readonly addresses: readonly NodeAddress[];
  readonly podCIDRs?: readonly string[];
  readonly conditions?: readonly NodeCondition[];
}

export interface RecordedEvent {
  readonly object: string;
  readonly type: string;
  readonly reason: string;
  readonly message?: string;
}

/** Everything at the end of a step. */
export interface RecordedStep {
  readonly services?: readonly Service[];
  readonly nodes?: readonly RecordedNode[];
  readonly events?: readonly RecordedEvent[];
  readonly arm: readonly JsonObject[];
}

export interface GoldenCase {
  readonly case: string;
  /** Undefined: Services. */
  readonly kind?: string;
  readonly cloudConfig: JsonObject;
  readonly clusterName: string;
  readonly clusterCIDR?: string;
  readonly nodes?: readonly RecordedNode[];
  readonly steps: Readonly<Record<string, RecordedStep>>;
}

async function readCase(path: string): Promise<GoldenCase> {
  const recorded: GoldenCase = await Bun.file(path).json();
  return { ...recorded, case: recorded.case ?? basename(path, ".json") };
}

const isCase = (file: string): boolean => file.endsWith(".json") && file !== "api-writes.json";

const readCases = async (folder: string): Promise<readonly GoldenCase[]> =>
  Promise.all(
    (await readdir(folder))
      .filter(isCase)
      .toSorted()
      .map((file) => readCase(join(folder, file))),
  );

export const goldenCases = await readCases(directory);

/** The cases of this repository, which each listed difference must occur in. */
export const ownCases = directory === ownDirectory ? goldenCases : await readCases(ownDirectory);

/** The steps of a case in order, with their names. */
export const stepsOf = (golden: GoldenCase): readonly (readonly [string, RecordedStep])[] =>
  Object.entries(golden.steps);

/** Keeps a node out of the pools of load balancers. */
export const excludedLabel = "node.kubernetes.io/exclude-from-external-load-balancers";

/** What has become of the third node, by the last step that was about it. */
const thirdNode: Readonly<Record<string, (node: RecordedNode) => readonly RecordedNode[]>> = {
  afterExcludingNode: (node) => [{ ...node, labels: { ...node.labels, [excludedLabel]: "true" } }],
  afterIncludingNode: (node) => [node],
  afterDeletingNode: () => [],
  afterNodeReturns: (node) => [node],
};

/** The Node objects at the end of a step; without one, those at the start. */
export function nodesAfter(golden: GoldenCase, state: RecordedStep | undefined): readonly RecordedNode[] {
  const { nodes = [] } = golden;
  if (state?.nodes !== undefined) return state.nodes;
  const steps = stepsOf(golden);
  const until = steps.slice(0, steps.findIndex(([, step]) => step === state) + 1);
  const last = until.findLast(([name]) => thirdNode[name] !== undefined)?.[0] ?? "afterIncludingNode";
  return nodes.flatMap((node, index) => (index === 2 ? (thirdNode[last]?.(node) ?? []) : [node]));
}
