import type { Service } from "cloud-controller-host/sdk";

import { type Annotation, annotationPrefix, fullKey, portPrefix } from "./annotation-rows.ts";
import { annotations, portAnnotations } from "./annotations.ts";

/** The values of a Service's annotations; an invalid annotation has the value that it would have if absent. */
export interface Settings {
  get<T>(annotation: Annotation<T>): T;
  /** The value for one port of the Service. */
  port<T>(annotation: Annotation<T>, port: number): T;
}

interface ReadSettings {
  readonly settings: Settings;
  /** One message per invalid annotation. */
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
}

const portRows: ReadonlyMap<string, Annotation<unknown>> = new Map(
  Object.values(portAnnotations).map((annotation) => [fullKey(annotation), annotation]),
);

/** Messages reported at most; a Service may have thousands of annotations. */
const maxMessages = 20;

/** Reads a Service's annotations and reports every invalid one. */
export function readSettings(service: Service): ReadSettings {
  const given = service.metadata?.annotations ?? {};
  const configurations = fullKey(annotations.configurations);
  const textOf = (key: string): string | undefined =>
    given[key] ?? (key === configurations ? textInAnyCase(given, key) : undefined);
  // Few Services have any, and every plan asks for all of them.
  const keys = Object.keys(given);
  const hasKeys = keys.some((key) => key.toLowerCase().startsWith(annotationPrefix));
  const portKeys = keys.filter((key) => key.startsWith(portPrefix));
  const hasPortKeys = portKeys.length > 0;
  const settings: Settings = {
    get: (annotation) => valueOf(annotation, hasKeys ? textOf(fullKey(annotation)) : undefined),
    port: (annotation, port) => valueOf(annotation, hasPortKeys ? textOf(fullKey(annotation, port)) : undefined),
  };
  const problems: string[] = [];
  const warnings: string[] = [];
  const check = (annotation: Annotation<unknown>, port?: number): void => {
    const key = fullKey(annotation, port);
    const read = annotation.read(textOf(key));
    if ("problem" in read) problems.push(`annotation ${key}: ${read.problem}`);
    else if (read.warning !== undefined) warnings.push(`annotation ${key}: ${read.warning}`);
  };
  for (const annotation of Object.values(annotations)) check(annotation);
  const ports = new Map(service.spec?.ports?.map(({ port }) => [`${port}`, port]));
  for (const key of portKeys) {
    const number = key.slice(portPrefix.length, key.indexOf("_", portPrefix.length));
    const port = ports.get(number);
    const annotation = portRows.get(key.replace(number, "<port>"));
    if (port !== undefined && annotation !== undefined) check(annotation, port);
  }
  return { settings, problems: atMost(problems), warnings: atMost(warnings) };
}

const textInAnyCase = (given: Readonly<Record<string, string>>, key: string): string | undefined =>
  Object.entries(given).find(([name]) => name.toLowerCase() === key)?.[1];

function valueOf<T>({ read, absent }: Annotation<T>, text: string | undefined): T {
  // So are most: nothing is to be read.
  if (text === undefined) return absent;
  const given = read(text);
  return "value" in given ? given.value : absent;
}

const atMost = (messages: readonly string[]): readonly string[] =>
  messages.length <= maxMessages
    ? messages
    : [...messages.slice(0, maxMessages), `and ${messages.length - maxMessages} more`];
