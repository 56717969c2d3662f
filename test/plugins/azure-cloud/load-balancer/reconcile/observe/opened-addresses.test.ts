import { describe, expect, test } from "bun:test";

import { finalizers, keyOf, type Service } from "cloud-controller-host/sdk";

import { OpenedAddresses } from "../../../../../../plugins/azure-cloud/load-balancer/reconcile/observe/opened-addresses.ts";
import { serviceOf } from "../../cluster.ts";
import { plannerConfigOf } from "../../fixtures.ts";

const on = (publicIP: string): Service => serviceOf("web", { annotations: { "azure-pip-name": publicIP } });
const target = { id: "/x", name: "x", resourceGroup: "rg0", services: [keyOf(serviceOf("web"))], body: {} } as const;
const group = { ...target, kind: "put-security-group" } as const;

/** Names of the public IPs that the Service may have opened ports on. */
const openedIn = ({ wishes }: OpenedAddresses): readonly (string | undefined)[] =>
  (wishes.get(keyOf(serviceOf("web"))) ?? []).map(
    ({ metadata }) => metadata?.annotations?.["service.beta.kubernetes.io/azure-pip-name"],
  );

describe("an address that a Service has opened", () => {
  test("stays known until a write of its security rules succeeds for another wish", () => {
    const opened = new OpenedAddresses(plannerConfigOf());
    opened.wrote({ kind: "written", write: group }, [on("one")]);
    expect(openedIn(opened)).toEqual(["one"]);
    opened.wrote({ kind: "failed", write: group }, [on("two")]);
    opened.wrote({ kind: "failed", write: group }, [serviceOf("web")]);
    expect(openedIn(opened)).toEqual(["one", "two"]);
    opened.wrote({ kind: "written", write: group }, [on("three")]);
    expect(openedIn(opened)).toEqual(["three"]);
    opened.wrote({ kind: "written", write: group }, [serviceOf("web")]);
    expect(opened.wishes.size).toBe(0);
  });

  test("is also an additional one", () => {
    const opened = new OpenedAddresses(plannerConfigOf());
    const more = serviceOf("web", { annotations: { "azure-additional-public-ips": "203.0.113.1" } });
    opened.wrote({ kind: "written", write: group }, [more]);
    expect(opened.wishes.get(keyOf(more))).toEqual([more]);
  });

  test("is forgotten with the write that deletes the Service", () => {
    const opened = new OpenedAddresses(plannerConfigOf());
    opened.wrote({ kind: "written", write: group }, [on("one")]);
    opened.wrote({ kind: "written", write: group }, []);
    expect(opened.wishes.size).toBe(0);
  });

  test("is not one of a write of another resource", () => {
    const opened = new OpenedAddresses(plannerConfigOf());
    opened.wrote({ kind: "written", write: { ...target, kind: "put-load-balancer" } }, [on("one")]);
    expect(opened.wishes.size).toBe(0);
  });

  test("takes bounded memory, however many writes fail and however many Services there are", () => {
    const opened = new OpenedAddresses(plannerConfigOf());
    for (const index of Array.from({ length: 20 }).keys())
      opened.wrote({ kind: "failed", write: group }, [on(`ip-${index}`)]);
    expect([openedIn(opened).length, openedIn(opened).at(-1)]).toEqual([10, "ip-19"]);
    for (const index of Array.from({ length: 5_001 }).keys())
      opened.wrote({ kind: "failed", write: group }, [
        serviceOf(`s-${index}`, { annotations: { "azure-pip-name": "ip" } }),
      ]);
    expect(opened.wishes.size).toBe(5_000);
    const more = Array.from({ length: 10 }, (_, index) =>
      serviceOf(`t-${index}`, { annotations: { "azure-pip-name": "ip" } }),
    );
    opened.wrote({ kind: "failed", write: group }, more);
    expect([opened.wishes.size, opened.wishes.has("default/s-10"), opened.wishes.has("default/s-11")]).toEqual([
      5_000,
      false,
      true,
    ]);
  });

  describe("shown as the type of its Service changed", () => {
    const finalized = (type: string, ip: string, ...held: readonly string[]): Service => {
      const { metadata, ...service } = serviceOf("web", { spec: { type } });
      const status = { loadBalancer: ip === "" ? {} : { ingress: [{ ip }] } };
      return { ...service, metadata: { ...metadata, finalizers: held }, status };
    };
    const shown = finalized("LoadBalancer", "20.0.0.1", finalizers.loadBalancerCleanup);
    const cleared = finalized("ClusterIP", "", finalizers.loadBalancerCleanup);
    const changed = (): OpenedAddresses => {
      const opened = new OpenedAddresses(plannerConfigOf());
      opened.handler.updated?.(shown, cleared);
      opened.handler.updated?.(cleared, finalized("LoadBalancer", "", finalizers.loadBalancerCleanup));
      expect([...opened.cleared]).toEqual([["default/web", ["20.0.0.1"]]]);
      return opened;
    };

    test("is forgotten with the next write of its security rules, and not with one that fails", () => {
      const opened = changed();
      opened.wrote({ kind: "failed", write: group }, []);
      expect(opened.cleared.size).toBe(1);
      opened.wrote({ kind: "written", write: group }, []);
      expect(opened.cleared.size).toBe(0);
    });

    test.each([
      ["shows an address again", shown],
      ["has lost its finalizer", finalized("ClusterIP", "")],
    ])("is forgotten once the Service %s", (_what, service) => {
      const opened = changed();
      opened.handler.updated?.(cleared, service);
      expect(opened.cleared.size).toBe(0);
    });

    test("is forgotten with the Service, and not noted for one that shows none or keeps its type", () => {
      const opened = changed();
      opened.handler.deleted?.(cleared);
      opened.handler.updated?.(finalized("LoadBalancer", ""), cleared);
      opened.handler.updated?.(shown, finalized("LoadBalancer", "", finalizers.loadBalancerCleanup));
      expect(opened.cleared.size).toBe(0);
    });
  });
});
