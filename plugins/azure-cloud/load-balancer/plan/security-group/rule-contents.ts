import type { SecurityRule } from "@azure/arm-network";

import { canonicalAddress } from "../../model/addresses.ts";
import type { Family } from "../../model/model.ts";
import { oncePer } from "../../model/once-per.ts";
import type { RuleProtocol } from "./access.ts";

type Rule = Readonly<SecurityRule>;

/** Clients and ports of a rule. */
export interface Opening {
  readonly protocol: RuleProtocol;
  readonly family: Family;
  readonly sources: readonly string[];
  readonly ports: readonly number[];
}

interface PortTexts {
  readonly sorted: readonly string[];
  readonly joined: string;
}

/** A Service has as many rules as service tags, and all have its ports. */
export const textsOf = oncePer((ports: readonly number[]): PortTexts => {
  const sorted = ports.map(String).toSorted();
  return { sorted, joined: sorted.join(",") };
});

export const destinationsOf = ({
  destinationAddressPrefix,
  destinationAddressPrefixes = [],
}: Rule): readonly string[] =>
  destinationAddressPrefix ? [...destinationAddressPrefixes, destinationAddressPrefix] : destinationAddressPrefixes;

export const sourcesOf = ({ sourceAddressPrefix, sourceAddressPrefixes = [] }: Rule): readonly string[] =>
  sourceAddressPrefix ? [...sourceAddressPrefixes, sourceAddressPrefix] : sourceAddressPrefixes;

const joined = (list: readonly string[]): string => [...new Set(list)].toSorted().join();
const textOf = (...parts: readonly (string | undefined)[]): string => parts.join(" ").toLowerCase();

/** Content of a rule apart from its destinations, in whatever order and case. */
export const contentOf = oncePer((rule: Rule): string => {
  const { protocol, access, direction, sourcePortRange, sourcePortRanges = [] } = rule;
  const { destinationPortRange, destinationPortRanges = [], sourceApplicationSecurityGroups = [] } = rule;
  return textOf(
    protocol,
    access,
    direction,
    joined(sourcesOf(rule)),
    joined(sourceApplicationSecurityGroups.map(({ id = "" }) => id)),
    joined([...sourcePortRanges, ...(sourcePortRange ? [sourcePortRange] : [])]),
    joined([...destinationPortRanges, ...(destinationPortRange ? [destinationPortRange] : [])]),
  );
});

export const contentOfDenying = textOf("*", "Deny", "Inbound", "*", "", "*", "*");

/** True if the rule has the content, whose sources are canonical: it is not known how ARM spells what it shows. */
export const hasContent = (rule: Rule, content: string): boolean =>
  contentOf(rule) === content || contentOf(respelled(rule)) === content;

const respelled = oncePer((rule: Rule): Rule => {
  const sources = sourcesOf(rule).map((source) => {
    const [address = "", ...length] = source.split("/");
    return [canonicalAddress(address) ?? address, ...length].join("/");
  });
  return { ...rule, sourceAddressPrefix: "", sourceAddressPrefixes: sources };
});

/** Sources in whatever order and case. */
export const contentOfSources = (sources: readonly string[]): string => textOf(joined(sources));

export const sourceContentOf = oncePer((rule: Rule): string => contentOfSources(sourcesOf(rule)));

/** The content of the rule of an opening. A Service has thousands of ports, and as many openings as service tags. */
export const contentOfAllowing = oncePer(({ protocol, sources, ports }: Opening): string =>
  textOf(protocol, "Allow", "Inbound", joined(sources), "", "*", portTexts(ports)),
);

const portTexts = oncePer((ports: readonly number[]): string => joined(textsOf(ports).sorted));

/** The rule with the content of another one of its name and priority. Its destinations and its description stay. */
export function withContent(rule: Rule, content: Rule): Rule {
  const { sourceAddressPrefix: _source, sourceAddressPrefixes: _sources, ...rest } = rule;
  const { sourcePortRange: _from, sourcePortRanges: _froms, sourceApplicationSecurityGroups: _groups, ...left } = rest;
  const { destinationPortRange: _port, destinationPortRanges: _ports, ...kept } = left;
  return { ...kept, ...content };
}
