import { join } from "node:path";

import { limits } from "../../../../plugins/azure-cloud/load-balancer/model/limits.ts";
import {
  type Annotation,
  annotationPrefix,
} from "../../../../plugins/azure-cloud/load-balancer/service/annotation-rows.ts";
import { annotations, portAnnotations } from "../../../../plugins/azure-cloud/load-balancer/service/annotations.ts";

/** The page that lists every annotation of Services. */
export const annotationsPage = join(import.meta.dir, "../../../../plugins/azure-cloud/ANNOTATIONS.md");

const head = ["Annotation", "Values", "Limits", "Default", "Effect", "Invalid value"];

/** Such as `200 items, 16384 characters`. */
function limitsOf({ limits: { items, length, pattern } }: Annotation<unknown>["read"]): string {
  const number = items === undefined ? [] : [`${items} items`];
  return [[...number, `${length} characters`].join(", "), ...(pattern === undefined ? [] : [pattern])].join(": ");
}

function table(rows: readonly Annotation<unknown>[]): string {
  const cells = rows.map(({ key, values, fallback, effect, invalid, read }) => [
    `\`${key}\``,
    values,
    limitsOf(read),
    fallback,
    effect,
    invalid,
  ]);
  const widths = head.map((title, column) => Math.max(title.length, ...cells.map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]): string =>
    `| ${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(" | ")} |`;
  const rule = `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`;
  return [line(head), rule, ...cells.map(line)].join("\n");
}

/** The text of the page, from the tables of annotations. */
export function annotationsReference(): string {
  return `# Annotations of Services

Generated from the tables in \`load-balancer/service/annotations.ts\`; a test fails when it is out of date. Every key begins with
\`${annotationPrefix}\`.

A Service with a refused value is not written to Azure at all; every problem is reported at once. A Service is also
refused if it alone exceeds a limit of Azure: ${limits.rulesPerLoadBalancer} rules of a load balancer (ports times IP families), ${limits.rulesPerSecurityGroup} rules of a
security group (service tags times protocols times IP families), or ${limits.prefixesPerSecurityGroup} prefixes as sources or as destinations
(rules times addresses). Deleting a Service works whatever its annotations are.

## Of the Service

${table(Object.values(annotations))}

## Of one port

\`<port>\` is the number of a port of the Service. A value here overrides that of the Service.

${table(Object.values(portAnnotations))}

\`spec.loadBalancerIP\` and \`spec.loadBalancerSourceRanges\` are read as well. With \`serviceGatewayEnabled\` in the cloud
config every Service is refused: service gateway mode is not supported.
`;
}

if (import.meta.main) await Bun.write(annotationsPage, annotationsReference());
