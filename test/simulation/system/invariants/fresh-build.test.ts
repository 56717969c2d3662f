import { expect, test } from "bun:test";

import { buildDifferences } from "./fresh-build.ts";

const label = 'ip0.dnsSettings.domainNameLabel is "web"';
const owner = 'ip0.tags.k8s-azure-dns-label-service is "default/web"';
const tag = 'ip0.tags.k8s-azure-service is "default/web"';

test("a fresh build may lack the DNS label that a Service no longer asks for, and nothing else", () => {
  expect(buildDifferences([label, owner, tag], [])).toEqual([`a fresh build lacks ${tag}`]);
});

test("a fresh build has no DNS label that the former one lacks", () => {
  expect(buildDifferences([], [label, owner])).toEqual([
    `only a fresh build has ${label}`,
    `only a fresh build has ${owner}`,
  ]);
});
