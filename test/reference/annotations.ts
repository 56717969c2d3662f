import { limits } from "../../plugins/azure-cloud/load-balancer/model/limits.ts";
import { type Annotation, annotationPrefix } from "../../plugins/azure-cloud/load-balancer/service/annotation-rows.ts";
import { annotations, portAnnotations } from "../../plugins/azure-cloud/load-balancer/service/annotations.ts";
import { code, heading, table } from "./markdown.ts";

const head = ["Annotation", "Values", "Limits", "Default", "Effect", "Invalid value"];

/** Such as `200 items, 16384 characters`. */
function limitsOf({ limits: { items, length, pattern } }: Annotation<unknown>["read"]): string {
  const number = items === undefined ? [] : [`${items} items`];
  return [[...number, `${length} characters`].join(", "), ...(pattern === undefined ? [] : [pattern])].join(": ");
}

const rows = (list: readonly Annotation<unknown>[]): string =>
  table(
    head,
    list.map(({ key, values, fallback, effect, invalid, read }) => [
      code(key),
      values,
      limitsOf(read),
      fallback,
      effect,
      invalid,
    ]),
  );

/** Every annotation of Services. */
export function serviceAnnotations(): string {
  return `${heading("Annotations of Services", "the tables in `load-balancer/service/annotations.ts`")}
Every key begins with \`${annotationPrefix}\`.

A Service with a refused value is not written to Azure at all; every problem is reported at once. A Service is also
refused if it alone exceeds a limit of Azure: ${limits.rulesPerLoadBalancer} rules of a load balancer (ports times IP families), ${limits.rulesPerSecurityGroup} rules of a
security group (service tags times protocols times IP families), or ${limits.prefixesPerSecurityGroup} prefixes as sources or as destinations
(rules times addresses). Deleting a Service works whatever its annotations are.

## Of the Service

${rows(Object.values(annotations))}

## Of one port

\`<port>\` is the number of a port of the Service. A value here overrides that of the Service.

${rows(Object.values(portAnnotations))}

\`spec.loadBalancerIP\` and \`spec.loadBalancerSourceRanges\` are read as well. With \`serviceGatewayEnabled\` in the cloud
config every Service is refused: service gateway mode is not supported.
`;
}
