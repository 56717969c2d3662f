import type { OperatorWarning } from "cloud-controller-host/sdk";

/** The lines of `/statusz` for the warnings of a controller or a cloud, without its name. */
export const warningLines = (source: { warnings?(): readonly OperatorWarning[] }): readonly string[] =>
  (source.warnings?.() ?? []).map((warning) => (typeof warning === "string" ? warning : warning.text));
