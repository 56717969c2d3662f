import { Value } from "@sinclair/typebox/value";
import { isObject, visible } from "cloud-controller-host/sdk";

import { shortened } from "../process/log/fields.ts";
import { type Section, sectionHeadSchema } from "./schema.ts";

const maxText = 4_000;
/** Limit for all sections together. */
const maxSections = 500;
const maxFacts = 5_000;

/** A text of a tenant or a plugin as it may be shown: of bounded length, and with every control character visible. */
function shown(text: string): string {
  return visible(shortened(text, maxText));
}

/** An answer whose texts may all be shown. */
export function cleaned(value: unknown): unknown {
  if (typeof value === "string") return shown(value);
  if (Array.isArray(value)) return value.map(cleaned);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [shown(key), cleaned(inner)]));
}

/** Sections of a plugin, which may return anything: a bounded copy that has nothing but titles, facts and children. */
export function sectionsOf(returned: unknown): Section[] {
  if (!Array.isArray(returned)) return [{ title: "its status() does not return sections" }];
  const left = { sections: maxSections, facts: maxFacts };
  const take = (section: unknown): Section[] => {
    if (left.sections <= 0) return [];
    left.sections -= 1;
    try {
      if (!isObject(section)) return [invalid];
      const head = headOf(section, left);
      if (head === undefined) return [invalid];
      const { children } = section;
      const inner = Array.isArray(children) ? children.slice(0, maxSections).flatMap(take) : [];
      return [{ ...head, ...(inner.length > 0 && { children: inner }) }];
    } catch {
      // A getter of the plugin may throw.
      return [invalid];
    }
  };
  return returned.slice(0, maxSections).flatMap(take);
}

function headOf({ title, facts }: Readonly<Record<string, unknown>>, left: { facts: number }): Section | undefined {
  const bounded = Array.isArray(facts) ? facts.slice(0, left.facts).map(factOf) : facts;
  const head: unknown = { title, ...(bounded !== undefined && { facts: bounded }) };
  if (!Value.Check(sectionHeadSchema, head)) return undefined;
  left.facts -= head.facts?.length ?? 0;
  return head;
}

function factOf(fact: unknown): unknown {
  if (!isObject(fact)) return fact;
  const { name, value, source } = fact;
  return { name, value, ...(source !== undefined && { source }) };
}

const invalid: Section = { title: "a section that is not valid" };
