import type { FieldChange } from "../changes/fields.ts";
import type { RecordedChange, System } from "./recorded.ts";

export type Action = "create" | "change" | "delete";

export interface Change {
  readonly system: System;
  readonly action: Action;
  readonly resource: string;
  readonly title: string;
  /** Services and nodes that cause it; empty if only the configuration does. */
  readonly reasons: readonly string[];
  /** Ways in which it interrupts traffic, one phrase each. */
  readonly interruptions: readonly string[];
  /** Empty for a deletion. */
  readonly fields: readonly FieldChange[];
}

export function actionOf({ before, after }: RecordedChange): Action {
  if (before === undefined) return "create";
  return after === undefined ? "delete" : "change";
}
