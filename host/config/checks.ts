import ipaddr from "ipaddr.js";

import { formatDuration } from "./durations.ts";

/** Checks of single values: each answers with the end of a sentence that begins with the flag's name. */

export const atLeast =
  (least: number, hint = "") =>
  (value: number): string | undefined =>
    value >= least ? undefined : `must be at least ${least}, got ${value}${hint}`;

/** A port to listen on, or 0 for none. */
export const port = (value: number): string | undefined =>
  value >= 0 && value <= 65_535 ? undefined : `must be between 0 and 65535, got ${value}; 0 turns this server off`;

export const notNegative = (milliseconds: number): string | undefined =>
  milliseconds >= 0 ? undefined : `cannot be negative, got ${formatDuration(milliseconds)}`;

export const positive = (milliseconds: number): string | undefined =>
  milliseconds > 0 ? undefined : `must be longer than 0s, got ${formatDuration(milliseconds)}`;

export const oneOf =
  (...known: readonly string[]) =>
  (value: string): string | undefined =>
    known.includes(value) ? undefined : `must be ${known.join(" or ")}, got "${value}"`;

export const noBlankItem = (values: readonly string[]): string | undefined =>
  values.some((value) => value.trim() === "") ? "has an empty item; remove it" : undefined;

/** The address family of a CIDR, or undefined when the text is none. */
export function familyOf(cidr: string): "ipv4" | "ipv6" | undefined {
  const prefix = prefixOf(cidr);
  return prefix === undefined ? undefined : prefix.family;
}

/** A CIDR's family and prefix length, or undefined when the text is none. */
export function prefixOf(cidr: string): { readonly family: "ipv4" | "ipv6"; readonly length: number } | undefined {
  if (!ipaddr.isValidCIDR(cidr) || !/^[0-9a-fA-F:.]+\/(0|[1-9]\d*)$/.test(cidr)) return undefined;
  const [address, length] = ipaddr.parseCIDR(cidr);
  if (address.kind() === "ipv4" && !/^\d+(\.\d+){3}\//.test(cidr)) return undefined;
  return { family: address.kind(), length };
}

/** The items of a comma list of CIDRs as operators write it, without blanks. */
export const splitCIDRs = (list: string): readonly string[] =>
  list
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== "");

/** What is wrong with a list of CIDRs: at most two, and two only when one is IPv4 and the other IPv6. */
export function cidrListProblem(list: string): string | undefined {
  const cidrs = splitCIDRs(list);
  const unreadable = cidrs.filter((cidr) => familyOf(cidr) === undefined);
  if (unreadable.length > 0)
    return `has ${unreadable.map((cidr) => `"${cidr}"`).join(", ")}, which is not a CIDR like 10.244.0.0/16`;
  if (cidrs.length > 2) return `can not contain more than two entries, got ${cidrs.length}`;
  if (cidrs.length === 2 && new Set(cidrs.map(familyOf)).size === 1)
    return `has two CIDRs of one family ("${list}"); two are allowed only for IPv4 and IPv6 side by side`;
  return undefined;
}
