/**
 * Conditions that the console explains with a remedy of their own. `ServicesFail` is for a Service with its `subject`,
 * which the console shows where the Service's own condition does not, and for lines that only count. `NodesFail` is for a
 * Node with its `subject`: the console shows the line as the cause of its state.
 */
export type WarningKind =
  | "RemovalsHeld"
  | "NodeDeletionsHeld"
  | "AllocationSuspended"
  | "RequestsThrottled"
  | "RequestsFail"
  | "ServicesFail"
  | "NodesFail";

/** A condition that needs an operator, of a kind that the host knows. */
export interface KnownWarning {
  readonly kind: WarningKind;
  /** One line, as `/statusz` shows it. */
  readonly text: string;
  /** Start of the condition, RFC 3339. */
  readonly since?: string;
  /** Key of the one object that it is about, such as `default/web`. */
  readonly subject?: string;
  /** Number of further objects in that condition, which have no line of their own. */
  readonly further?: number;
}

/** A condition that needs an operator: a line of text, or one of a known kind. */
export type OperatorWarning = string | KnownWarning;
