import type { EndpointSlice } from "cloud-controller-host/sdk";

/** The label with the name of the Service that an EndpointSlice is of. */
export const serviceLabel = "kubernetes.io/service-name";

/** The key of the Service that an EndpointSlice is of. */
export const serviceOf = ({ metadata }: EndpointSlice): string =>
  `${metadata?.namespace ?? ""}/${metadata?.labels?.[serviceLabel] ?? ""}`;
