import type { Service, ServiceWarning } from "cloud-controller-host/sdk";

import { suggestion } from "../../suggestion.ts";
import { oncePer } from "../model/once-per.ts";
import type { PlannerConfig } from "../model/planner-config.ts";
import { annotationPrefix, fullKey, portPrefix } from "../service/annotation-rows.ts";
import { annotations, portAnnotations } from "../service/annotations.ts";
import { readSubject } from "../service/subject.ts";
import { withoutEffect } from "../service/without-effect.ts";
import { accessOf } from "./security-group/access.ts";

/** Warnings about the settings of a Service that is not refused. They do not depend on the state of Azure. */
export const serviceWarnings = (service: Service, config: PlannerConfig): readonly ServiceWarning[] =>
  warningsBy(config)(service);

const warningsBy = oncePer((config: PlannerConfig) => oncePer((service: Service) => warningsOf(service, config)));

function warningsOf(service: Service, config: PlannerConfig): readonly ServiceWarning[] {
  const { subject, warnings } = readSubject(service, config);
  const invalid = [...warnings, ...accessOf(subject).warnings, ...unknownAnnotations(service)];
  return [
    ...invalid.map((message) => ({ reason: "InvalidConfiguration", message })),
    ...withoutEffect(subject, config).map((message) => ({ reason: "AnnotationIgnored", message })),
  ];
}

const known: ReadonlyMap<string, string> = new Map(
  Object.values(annotations)
    .map((row) => fullKey(row))
    .map((key) => [key.toLowerCase(), key]),
);
const ownPrefix = `${annotationPrefix}azure-`;
const portKeys: ReadonlySet<string> = new Set(Object.values(portAnnotations).map((row) => fullKey(row)));
/** Named at most; a Service may have thousands of annotations. */
const maxNamed = 10;
/** Keys without a row that are compared with those of the table, which costs a millisecond each. */
const maxCompared = 100;

/**
 * Annotations that no table has: those with this cloud's prefix, and those of no cloud whose keys are almost one of the
 * table's. Other clouds have keys of their own below the common prefix.
 */
function unknownAnnotations({ metadata, spec }: Service): readonly string[] {
  const ports = new Set(spec?.ports?.map(({ port }) => `${port}`));
  const problems: string[] = [];
  let compared = 0;
  for (const key of Object.keys(metadata?.annotations ?? {})) {
    if (!key.startsWith(annotationPrefix) || isKnown(key, ports)) continue;
    const problem = problemOf(key, ports);
    if (problem !== undefined) problems.push(problem);
    if (problems.length === maxNamed || ++compared === maxCompared) break;
  }
  return problems;
}

/** Of the table, or for a port that the Service has. */
function isKnown(key: string, ports: ReadonlySet<string>): boolean {
  if (!key.startsWith(portPrefix)) return known.get(key.toLowerCase()) === key;
  const port = portOf(key);
  return ports.has(port) && portKeys.has(key.replace(port, "<port>"));
}

const portOf = (key: string): string => key.slice(portPrefix.length, key.indexOf("_", portPrefix.length));

function problemOf(key: string, ports: ReadonlySet<string>): string | undefined {
  if (key.startsWith(portPrefix)) return portProblem(key, ports);
  if (key.toLowerCase() === fullKey(annotations.configurations)) return undefined;
  const near = key.length > 2 * maxKey ? "" : suggestion(key, known.values(), annotationPrefix.length);
  return near === "" && !key.startsWith(ownPrefix) ? undefined : `annotation ${shown(key)} is unknown${near}`;
}

function portProblem(key: string, ports: ReadonlySet<string>): string | undefined {
  const port = portOf(key);
  const general = key.replace(port, "<port>");
  if (!portKeys.has(general))
    return `annotation ${shown(key)} is unknown${suggestion(general, portKeys, portPrefix.length)}`;
  return ports.has(port) ? undefined : `annotation ${shown(key)} has no effect: the Service has no port ${port}`;
}

const maxKey = Math.max(...[...known.keys()].map((key) => key.length));
const shown = (key: string): string => (key.length > 2 * maxKey ? `${key.slice(0, 2 * maxKey)}…` : key);
