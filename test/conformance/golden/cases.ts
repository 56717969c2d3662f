import { readdir } from "node:fs/promises";
import { basename, join } from "node:path";

import type { NodeAddress, NodeCondition, Service } from "cloud-controller-host/sdk";

import type { JsonObject } from "../../../plugins/azure-cloud/json.ts";

const ownDirectory = join(import.meta.dir, "..", "..", "golden");

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
