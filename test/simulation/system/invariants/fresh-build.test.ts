import { expect, test } from "bun:test";

import { buildDifferences, linkNames } from "./fresh-build.ts";

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

test("a private link service whose name no Service asks for any more is known by its Service", () => {
  const link = {
    type: "Microsoft.Network/privateLinkServices",
    name: "link-a",
    tags: { "k8s-azure-owner-service": "default/web" },
  };
  const worded = (annotations: Readonly<Record<string, string>>): string =>
    linkNames([link], [{ metadata: { annotations } }]).reduce(
      (text, [name, words]) => text.replaceAll(name, words),
      "link-a.networkInterfaces[/nics/link-a.nic.80202f77]",
    );
  expect(worded({})).toBe("link of default/web.networkInterfaces[/nics/link of default/web]");
  const named = { "service.beta.kubernetes.io/azure-pls-name": "link-a" };
  expect(worded(named)).toBe("link-a.networkInterfaces[/nics/link-a.nic.80202f77]");
});
