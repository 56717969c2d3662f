import { type EndpointSlice, kinds, type Service } from "cloud-controller-host/sdk";

import { ageColumn, type Column, defineResource, nameColumn } from "../resource.ts";
import { endpointSlice as endpointSliceSchema, service as serviceSchema } from "../schema/service.ts";
import { problemsOfSlice } from "./endpoint-slice-problems.ts";
import { prepareService } from "./service-defaults.ts";
import { problemsOfService } from "./service-problems.ts";

const none = "<none>";
const joined = (words: readonly string[], otherwise: string): string => words.join(",") || otherwise;

/** The external addresses of a Service, as printed by kubectl. */
const externalIPs: Readonly<Record<string, (service: Service) => string>> = {
  ClusterIP: ({ spec }) => joined(spec?.externalIPs ?? [], none),
  NodePort: ({ spec }) => joined(spec?.externalIPs ?? [], none),
  ExternalName: ({ spec }) => spec?.externalName || none,
  LoadBalancer: ({ spec, status }) => {
    const ingress = (status?.loadBalancer?.ingress ?? []).map(({ ip, hostname }) => ip ?? hostname ?? "");
    return joined([...ingress.filter((address) => address !== ""), ...(spec?.externalIPs ?? [])], "<pending>");
  },
};

const portsOf = ({ spec }: Service): string =>
  joined(
    (spec?.ports ?? []).map(
      ({ port, nodePort, protocol }) => `${port}${nodePort === undefined ? "" : `:${nodePort}`}/${protocol ?? "TCP"}`,
    ),
    none,
  );

const selectorOf = ({ spec }: Service): string =>
  joined(
    Object.entries(spec?.selector ?? {})
      .map(([key, value]) => `${key}=${value}`)
      .toSorted(),
    none,
  );

const columns: readonly Column<Service>[] = [
  nameColumn,
  { name: "Type", cell: ({ spec }) => spec?.type ?? "" },
  { name: "Cluster-IP", cell: ({ spec }) => spec?.clusterIP ?? none },
  { name: "External-IP", cell: (service) => externalIPs[service.spec?.type ?? ""]?.(service) ?? "<unknown>" },
  { name: "Port(s)", cell: portsOf },
  ageColumn,
  { name: "Selector", wide: true, cell: selectorOf },
];

export const service = defineResource<Service>({
  kind: kinds.Service,
  singular: "service",
  shortNames: ["svc"],
  categories: ["all"],
  schema: serviceSchema,
  status: true,
  createOnUpdate: true,
  returnsDeleted: true,
  nameRule: "label",
  columns,
  fields: ({ spec }) => ({ "spec.clusterIP": spec?.clusterIP ?? "", "spec.type": spec?.type ?? "" }),
  prepare: prepareService,
  problems: problemsOfService,
});

/** Up to three items of a list and the number of further ones. */
function firstFew(words: readonly string[]): string {
  const more = words.length > 3 ? ` + ${words.length - 3} more...` : "";
  return joined(words.slice(0, 3), "<unset>") + more;
}

export const endpointSlice = defineResource<EndpointSlice>({
  kind: kinds.EndpointSlice,
  singular: "endpointslice",
  schema: endpointSliceSchema,
  generation: "contentAndLabels",
  columns: [
    nameColumn,
    { name: "AddressType", cell: ({ addressType }) => addressType },
    {
      name: "Ports",
      cell: ({ ports }) => firstFew((ports ?? []).map(({ port, name }) => String(port ?? name ?? "*"))),
    },
    {
      name: "Endpoints",
      cell: ({ endpoints }) => firstFew((endpoints ?? []).flatMap(({ addresses }) => addresses)),
    },
    ageColumn,
  ],
  prepare: (slice) => ({
    ...slice,
    ports: (slice.ports ?? []).map((port) => ({ name: "", protocol: "TCP", ...port })),
  }),
  problems: problemsOfSlice,
});
