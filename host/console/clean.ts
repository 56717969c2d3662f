import { Value } from "@sinclair/typebox/value";

import { type Section, sectionSchema } from "./schema.ts";

const maxText = 4_000;
const maxSections = 500;

/** Controls of terminals and of the direction of text: a name must not look like another one. Line feeds stay. */
const controls = /(?!\n)[\p{Cc}\p{Cf}\u2028\u2029]/gu;

const visible = (character: string): string => `\\u{${(character.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}}`;

/** A text of a tenant or a plugin as it may be shown: of bounded length, and with every control character visible. */
function shown(text: string): string {
  const cut = text.length > maxText ? `${text.slice(0, maxText)}… (${text.length - maxText} more characters)` : text;
  return cut.replaceAll(controls, visible);
}

/** An answer whose texts may all be shown. */
export function cleaned(value: unknown): unknown {
  if (typeof value === "string") return shown(value);
  if (Array.isArray(value)) return value.map(cleaned);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [shown(key), cleaned(inner)]));
}

/** Sections of a plugin, which may return anything and any number of them. */
export function sectionsOf(returned: unknown): Section[] {
  if (!Array.isArray(returned)) return [{ title: "its status() does not return sections" }];
  let left = maxSections;
  const take = (section: unknown): Section[] => {
    if (left <= 0) return [];
    left -= 1;
    if (typeof section !== "object" || section === null) return [invalid];
    const { children, ...own }: { readonly children?: unknown } = section;
    const inner = Array.isArray(children) ? children.slice(0, maxSections).flatMap(take) : [];
    const bounded = { ...own, ...(inner.length > 0 && { children: inner }) };
    return Value.Check(sectionSchema, bounded) ? [bounded] : [invalid];
  };
  return returned.slice(0, maxSections).flatMap(take);
}

const invalid: Section = { title: "a section that is not valid" };
