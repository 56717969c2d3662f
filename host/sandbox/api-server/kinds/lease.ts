import { kinds, type Lease } from "cloud-controller-host/sdk";

import { invalidValue } from "../registry/validation.ts";
import { ageColumn, defineResource, nameColumn } from "../resource.ts";
import { lease as schema } from "../schema/plain.ts";

export const lease = defineResource<Lease>({
  kind: kinds.Lease,
  singular: "lease",
  schema,
  createOnUpdate: true,
  conditionalUpdate: true,
  columns: [nameColumn, { name: "Holder", cell: ({ spec }) => spec?.holderIdentity ?? "" }, ageColumn],
  problems: ({ spec: { leaseDurationSeconds: seconds = 1, leaseTransitions: transitions = 0 } = {} }) => [
    ...(seconds > 0 ? [] : [invalidValue("spec.leaseDurationSeconds", seconds, "must be greater than 0")]),
    ...(transitions >= 0
      ? []
      : [invalidValue("spec.leaseTransitions", transitions, "must be greater than or equal to 0")]),
  ],
});
