import { expect, test } from "bun:test";
import { join } from "node:path";

import type { Permission } from "cloud-controller-host/sdk";

import nodeIPAM from "../../plugins/azure-node-ipam/plugin.ts";
import cloudNode from "../../plugins/cloud-node/plugin.ts";
import lifecycle from "../../plugins/lifecycle/plugin.ts";
import route from "../../plugins/route/plugin.ts";
import serviceLB from "../../plugins/service-lb/plugin.ts";
import { root } from "./pages.ts";

const plugins = {
  "azure-node-ipam": nodeIPAM,
  "cloud-node": cloudNode,
  lifecycle,
  route,
  "service-lb": serviceLB,
} as const;

/** A rule as a sentence of a README has it. */
function phraseOf({ resources, verbs, namespace = "", resourceNames }: Permission): string {
  const on =
    resourceNames === undefined
      ? resources.map((resource) => (resource.includes("/") ? `\`${resource}\`` : resource)).join(" and ")
      : `the lease \`${namespace}/${resourceNames.join()}\``;
  return `${verbs.map((verb) => `\`${verb}\``).join(", ")} on ${on}`;
}

test.each(Object.entries(plugins))(
  "the README of %s names its client and all its permissions",
  async (folder, plugin) => {
    const page = await Bun.file(join(root, "plugins", folder, "README.md")).text();
    const [, client, permissions] = /\nClient `([^`]+)`; permissions: ([^]*?)\.\n/u.exec(page) ?? [];
    expect(client).toBe(plugin.initContext.clientName);
    expect(permissions?.replaceAll("\n", " ")).toBe((plugin.permissions ?? []).map(phraseOf).join(", "));
  },
);
