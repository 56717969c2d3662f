import { expect, setDefaultTimeout, test } from "bun:test";

import { kinds, type Service } from "cloud-controller-host/sdk";

import { type JsonObject, objectAt, objectsAt, stringAt } from "../../plugins/azure-cloud/json.ts";
import { balancedService, deleteService, findService, patchService } from "../kit/services.ts";
import { describeServices, type ServiceLab } from "./service-lab.ts";

setDefaultTimeout(120_000);

const prefix = "service.beta.kubernetes.io/";
const network = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network";

const annotated = (name: string, annotations: Readonly<Record<string, string>>): Service => ({
  ...balancedService(name),
  metadata: {
    name,
    namespace: "default",
    annotations: Object.fromEntries(Object.entries(annotations).map(([key, value]) => [prefix + key, value])),
  },
});

const annotate = (lab: ServiceLab, name: string, annotations: Readonly<Record<string, string | null>>) =>
  patchService(lab.admin, name, {
    metadata: {
      annotations: Object.fromEntries(Object.entries(annotations).map(([key, value]) => [prefix + key, value])),
    },
  });

const balancer = ({ simulator }: ServiceLab) => simulator.get(`${network}/loadBalancers/kubernetes`)?.properties;
const listOf = (lab: ServiceLab, list: string): readonly JsonObject[] => objectsAt(balancer(lab), list);
const gateways = (lab: ServiceLab): readonly unknown[] =>
  listOf(lab, "frontendIPConfigurations").map((one) =>
    stringAt(objectAt(objectAt(one, "properties"), "gatewayLoadBalancer"), "id"),
  );

describeServices("what Azure has offered since", (open) => {
  test("a frontend is chained to a Gateway Load Balancer for as long as the annotation asks for it", async () => {
    await using lab = await open();
    const key = "azure-load-balancer-gateway-frontend-id";
    const gateway = `/subscriptions/other/resourceGroups/appliances/providers/Microsoft.Network/loadBalancers/gw/frontendIPConfigurations/f`;
    await lab.start();
    await lab.create(balancedService("plain"));
    await lab.served("plain");
    await lab.create(annotated("web", { [key]: gateway }));
    await lab.served("web");
    expect(gateways(lab)).toEqual([undefined, gateway]);
    // Left as it is in Azure, where nothing is asked for; ended where that is asked for.
    await annotate(lab, "web", { [key]: null });
    expect(await lab.restart(2)).toEqual([]);
    expect(gateways(lab)).toEqual([undefined, gateway]);
    await annotate(lab, "web", { [key]: "" });
    await lab.eventually("the chain is gone", () => gateways(lab).every((one) => one === undefined));
    const before = listOf(lab, "frontendIPConfigurations").map((one) => stringAt(one, "name"));
    await annotate(lab, "plain", { [key]: gateway });
    await lab.eventually("the first one is chained", () => gateways(lab)[0] === gateway);
    expect(listOf(lab, "frontendIPConfigurations").map((one) => stringAt(one, "name"))).toEqual(before);
    expect(await lab.restart(2)).toEqual([]);
  });

  test("a load balancer stays for others when its last Service goes, where the config asks for it", async () => {
    await using lab = await open({ config: { keepEmptyLoadBalancer: true } });
    await lab.start();
    for (const name of ["one", "two"]) {
      await lab.create(balancedService(name));
      await lab.served(name);
    }
    for (const name of ["one", "two"]) await lab.remove(name);
    expect(listOf(lab, "loadBalancingRules")).toEqual([]);
    expect(listOf(lab, "probes")).toEqual([]);
    expect(listOf(lab, "frontendIPConfigurations")).toHaveLength(1);
    expect(
      objectsAt(objectAt(listOf(lab, "backendAddressPools")[0], "properties"), "backendIPConfigurations"),
    ).toHaveLength(3);
    await lab.create(balancedService("three"));
    await lab.served("three");
    expect(listOf(lab, "loadBalancingRules")).toHaveLength(1);
    expect(await lab.restart(1)).toEqual([]);
    await lab.remove("three");
    expect(listOf(lab, "loadBalancingRules")).toEqual([]);
  });

  test("a protected private link service keeps its Service while an endpoint is connected", async () => {
    await using lab = await open();
    await lab.start();
    await lab.create(
      annotated("web", {
        "azure-load-balancer-internal": "true",
        "azure-pls-create": "true",
        "azure-pls-name": "my-link",
        "azure-pls-delete-protection": "true",
      }),
    );
    await lab.served("web");
    const link = `${network}/privateLinkServices/my-link`;
    const connect = (status: string): void => {
      const known = lab.simulator.get(link);
      const state = { privateLinkServiceConnectionState: { status } };
      const privateEndpointConnections = [{ name: "peer", properties: state }];
      lab.simulator.put(link, { ...known, properties: { ...known?.properties, privateEndpointConnections } });
    };
    await lab.eventually("the link is there", () => lab.simulator.get(link) !== undefined);
    connect("Approved");
    await deleteService(lab.admin, "web");
    await lab.eventually("its deletion is refused", async () =>
      (await lab.events("web")).some(({ message = "" }) =>
        message.includes("private link service my-link is protected and has private endpoint connections: peer"),
      ),
    );
    expect(lab.simulator.get(link)).toBeDefined();
    expect(listOf(lab, "frontendIPConfigurations")).toEqual([]);
    expect(
      objectsAt(
        lab.simulator.get(`${network}/loadBalancers/kubernetes-internal`)?.properties,
        "frontendIPConfigurations",
      ),
    ).toHaveLength(1);
    await annotate(lab, "web", { "azure-pls-delete-protection": "false" });
    await lab.eventually("it is gone", async () => (await findService(lab.admin, "web")) === undefined);
    expect(lab.simulator.get(link)).toBeUndefined();
  });

  test("a network interface in a failed state that Azure refuses to repair is reported to its node and its Service, and joins once it is repaired", async () => {
    await using lab = await open({ machines: "standalone" });
    const [failed] = lab.simulator.resources().filter(({ type }) => /networkInterfaces$/iu.test(type));
    const id = failed?.id ?? "";
    const set = (provisioningState: string): void =>
      void lab.simulator.put(id, {
        ...failed,
        properties: { ...lab.simulator.get(id)?.properties, provisioningState },
      });
    set("Failed");
    lab.simulator.failNext({ method: "PUT", path: id }, { status: 400, code: "InvalidRequestFormat", times: 1_000 });
    await lab.start();
    await lab.create(balancedService("web"));
    await lab.served("web");
    const members = () =>
      objectsAt(objectAt(listOf(lab, "backendAddressPools")[0], "properties"), "backendIPConfigurations").length;
    expect(members()).toBe(2);
    const reported = async () =>
      (await lab.admin.list(kinds.Event)).filter(({ reason }) => reason === "NetworkInterfaceFailed");
    const events = await lab.eventually("both have an event", async () => {
      const found = await reported();
      return found.length >= 2 && found;
    });
    expect(new Set(events.map(({ involvedObject }) => involvedObject.kind))).toEqual(new Set(["Node", "Service"]));
    expect(events[0]?.message).toContain(
      `its provisioning state is Failed; to repair it, run az network nic update --ids ${id}`,
    );
    lab.simulator.clearFailures();
    set("Succeeded");
    await lab.restart(1);
    expect(members()).toBe(3);
    expect(await reported()).toHaveLength(2);
  });
});
