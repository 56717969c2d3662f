import { expect, test } from "bun:test";

import { addressOwners, ownedParts, portOwners } from "../owned-parts.ts";
import { azureRig, named, rule } from "./azure-rig.ts";

const { simulator, idOf, putBalancer, putPublicIP, putRules, view } = await azureRig();
const web = named("web", "1");
const other = named("other", "2");

test("a port of a shared address belongs to the Service with the rule on it, whatever frontend that is on", () => {
  const address = putPublicIP("shared");
  putBalancer({
    frontends: [
      [web.base, "shared"],
      ["outbound", "shared"],
    ],
    rules: [rule(web.base, web.base), rule(other.base, web.base, 443), rule(other.base, "outbound", 53, "Udp")],
  });
  expect(portOwners(view())).toEqual(
    new Map([
      [`${address} TCP 80`, web.base],
      [`${address} TCP 443`, other.base],
      [`${address} UDP 53`, other.base],
    ]),
  );
});

test("a port belongs to no Service without a rule of one on it", () => {
  putPublicIP("shared");
  putBalancer({ frontends: [[web.base, "shared"]], rules: [rule("theirs", web.base)] });
  expect(portOwners(view())).toEqual(new Map());
});

test("an address belongs to the Service of its frontend rather than to that of its public IP", () => {
  const [shared, unused, theirs] = [
    putPublicIP(`kubernetes-${web.base}`),
    putPublicIP(`kubernetes-${"a".padEnd(32, "3")}`),
    putPublicIP("theirs"),
  ];
  putBalancer({
    frontends: [
      [other.base, `kubernetes-${web.base}`],
      ["outbound", "theirs"],
    ],
  });
  putBalancer({ frontends: [[web.base, "10.240.0.100"]] }, "kubernetes-internal");
  const owners = addressOwners(view());
  expect(owners.get(shared ?? "")).toBe(other.base);
  expect(owners.get(unused ?? "")).toBe("a".padEnd(32, "3"));
  expect(owners.has(theirs ?? "")).toBe(false);
  expect(owners.get("10.240.0.100")).toBe(web.base);
});

test("an opening is a part of its own for each address and port, and names the port that it opens", () => {
  putRules({ to: ["192.0.2.1", "192.0.2.2"], ports: ["80", "443"] }, { name: "theirs", to: ["192.0.2.3"] });
  expect(ownedParts(view())).toEqual(
    new Map(
      ["192.0.2.1", "192.0.2.2"].flatMap((address) =>
        ["80", "443"].map((port) => [
          `Allow Tcp from Internet to ${address} ${port}`,
          { services: [address], port: `${address} TCP ${port}` },
        ]),
      ),
    ),
  );
});

test("public IPs, frontends and rules are parts of the Service in their name, and routes of their node", () => {
  for (const name of [`kubernetes-${web.base}`, "theirs"]) putPublicIP(name);
  putBalancer({
    frontends: [
      [`${web.base}-IPv6`, `kubernetes-${web.base}`],
      ["outbound", "theirs"],
    ],
    rules: [rule(other.base, "outbound"), rule("theirs", "outbound", 443)],
  });
  const route = (name: string) => ({
    name,
    properties: { addressPrefix: "10.244.0.0/24", nextHopType: "VirtualAppliance", nextHopIpAddress: "10.240.0.4" },
  });
  const routes = [route("vm-0____10244000024"), route("theirs")];
  simulator.put(idOf("routeTables", "rt0"), { properties: { routes } });
  expect(ownedParts(view())).toEqual(
    new Map([
      [`kubernetes/frontendIPConfigurations/${web.base}-IPv6`, { services: [web.base] }],
      [`kubernetes/loadBalancingRules/${other.base}-TCP-80`, { services: [other.base] }],
      [`public IP kubernetes-${web.base}`, { services: [web.base] }],
      ["route of vm-0 to 10.240.0.4", { node: "vm-0", services: [] }],
    ]),
  );
});
