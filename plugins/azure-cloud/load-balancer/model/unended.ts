/** Provisioning states of an operation that may still fail, or has not taken effect yet. */
const unended = new Set(["updating", "deleting"]);

export const isUnended = (provisioningState = ""): boolean => unended.has(provisioningState.toLowerCase());
