import { isObject } from "cloud-controller-host/sdk";

import type { FieldChange } from "../changes/fields.ts";
import type { PlanDocument } from "../changes/plan-schema.ts";
import { isSecretKey, redacted, redactText } from "../process/log/redact.ts";
import type { Plan } from "./plan.ts";

/** A value that the cloud will choose. */
const knownAfterApply = "(known after apply)";

/** The plan as a document without secrets; what the cloud will choose is `(known after apply)`. */
export function planDocument(plan: Plan): PlanDocument {
  const { cloud, changes, held, inFlight, refused, failures, skipped, unserved, placeholders } = plan;
  const pattern = patternOf(placeholders);
  return {
    version: 1,
    cloud,
    complete: failures.length === 0,
    changes: changes.map(({ system, action, resource, title, reasons, interruptions, fields }) => ({
      system,
      action,
      resource,
      title,
      reasons: [...reasons],
      interruptions: [...interruptions],
      fields: fields.map((field) => shownField(field, pattern, system === "kubernetes" && isSecret(resource))),
    })),
    held: held.map(({ resource, title, removals, reason }) => ({ resource, title, removals: [...removals], reason })),
    inFlight: inFlight.map((write) => ({ ...write })),
    refused: refused.map(([subject, reason]) => ({
      resource: objectOf(subject) ?? subject,
      reason: redactText(reason),
    })),
    failures: failures.map(redactText),
    skippedControllers: [...skipped],
    ...(unserved && { unservedServices: [...unserved] }),
  };
}

/** The changes of one object, `Service default/web` or `Node vm-0`, and those that it causes. */
export const changesAbout = ({ changes }: PlanDocument, subject: string): PlanDocument["changes"] =>
  changes.filter(({ resource, reasons }) => resource === subject || reasons.includes(subject));

/** The plan with the changes and the refusal of one object; what could not be planned may concern it. */
export const planAbout = (plan: PlanDocument, subject: string): PlanDocument => ({
  ...plan,
  changes: changesAbout(plan, subject),
  refused: plan.refused.filter(({ resource }) => resource === subject),
});

/** The object of a failure like `service default/web: 403`; undefined where it concerns the whole plan. */
export const failedSubject = (failure: string): string | undefined =>
  objectOf(/^\S+ \S+(?=: )/u.exec(failure)?.[0] ?? "");

/** The object of a key with the name of its queue. */
function objectOf(subject: string): string | undefined {
  const [, queue = "", key = ""] = /^(service|nodes?) (\S+)$/iu.exec(subject) ?? [];
  if (queue === "") return undefined;
  return queue === "service" ? `Service ${key}` : `Node ${key}`;
}

const isSecret = (resource: string): boolean => resource.startsWith("Secret ");

function shownField({ path, ...values }: FieldChange, pattern: RegExp | undefined, secret: boolean): FieldChange {
  const shown = Object.entries(values).map(([side, value]: [string, unknown]) => [
    side,
    secret || (isSecretKey(path) && typeof value === "string")
      ? redacted
      : shownValue(value, side === "after" ? pattern : undefined),
  ]);
  return { path, ...Object.fromEntries(shown) };
}

function shownValue(value: unknown, pattern: RegExp | undefined): unknown {
  if (typeof value === "string") {
    const text = redactText(value);
    return pattern === undefined ? text : text.replaceAll(pattern, knownAfterApply);
  }
  if (Array.isArray(value)) return value.map((item) => shownValue(item, pattern));
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [
      key,
      isSecretKey(key) && typeof inner === "string" ? redacted : shownValue(inner, pattern),
    ]),
  );
}

/** Longest first: `192.0.2.1` is the beginning of `192.0.2.12`. */
function patternOf(placeholders: ReadonlySet<string>): RegExp | undefined {
  if (placeholders.size === 0) return undefined;
  const longestFirst = [...placeholders].toSorted((one, other) => other.length - one.length);
  return new RegExp(longestFirst.map((text) => RegExp.escape(text)).join("|"), "gu");
}
