import { expect, test } from "bun:test";

import { itemKey, kindOf, nameOf, type Part } from "../../../../plugins/azure-cloud/removal-guard/items.ts";

const parts: Readonly<Record<Part["kind"], readonly [part: Part, kind: string, name: string]>> = {
  frontends: [{ kind: "frontends", name: "aBC" }, "frontends", "aBC"],
  "frontend addresses": [
    { kind: "frontend addresses", frontend: "abc", address: "kubernetes-abc" },
    "frontend addresses",
    "abc kubernetes-abc",
  ],
  rules: [{ kind: "rules", name: "abc-TCP-80" }, "rules", "abc-TCP-80"],
  probes: [{ kind: "probes", name: "abc-TCP-80" }, "probes", "abc-TCP-80"],
  "members of backend pool": [
    { kind: "members of backend pool", pool: "Kubernetes", address: "10.0.0.4" },
    "members of backend pool Kubernetes",
    "10.0.0.4",
  ],
  members: [{ kind: "members", name: "node-0" }, "members", "node-0"],
  "members by interface": [{ kind: "members by interface", name: "node-0" }, "members by interface", "node-0"],
  "security rules": [
    { kind: "security rules", address: "20.0.0.1", protocol: "tcp", port: "80-81" },
    "security rules",
    "20.0.0.1 tcp 80-81",
  ],
  "public IPs": [{ kind: "public IPs", name: "kubernetes-abc" }, "public IPs", "kubernetes-abc"],
  "private link services": [{ kind: "private link services", name: "pls" }, "private link services", "pls"],
  routes: [{ kind: "routes", node: "node-0", cidr: "10.244.0.0/24" }, "routes", "node-0 10.244.0.0/24"],
  addresses: [
    { kind: "addresses", address: "20.0.0.1", service: "default/web" },
    "addresses",
    "20.0.0.1 of Service default/web",
  ],
  "private links": [{ kind: "private links", service: "default/web" }, "private links", "of Service default/web"],
  nodes: [{ kind: "nodes", name: "node-0" }, "nodes", "node-0"],
};

test.each(Object.values(parts))(
  "the part %j has the kind %s and the name %s, which stay for confirmations",
  (...row) => {
    const [part, kind, name] = row;
    expect([kindOf(part), nameOf(part)]).toEqual([kind, name]);
    expect(itemKey(part)).toBe(`${kind} ${name}`.toLowerCase());
  },
);
