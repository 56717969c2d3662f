const unsuccessful = new Set(["failed", "canceled"]);

/** True if the last operation on a resource did not succeed: what ARM shows of it may not be in effect. */
export const isUnprovisioned = (resource: { readonly provisioningState?: string } | undefined): boolean =>
  unsuccessful.has(resource?.provisioningState?.toLowerCase() ?? "");
