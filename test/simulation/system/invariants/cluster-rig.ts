import { defaultLoadBalancerName, kinds, type Node, type Service } from "cloud-controller-host/sdk";

import { SandboxApiServer } from "../../../../sdk/testing/api-server/index.ts";
import { balancedService } from "../../../kit/services.ts";
import type { Named } from "./azure-rig.ts";

/** A cluster for one test: an API server, a clock, and machines that tests add. */
export class ClusterRig implements AsyncDisposable {
  readonly api: SandboxApiServer;
  now = 0;

  private constructor(api: SandboxApiServer) {
    this.api = api;
  }

  static async start(): Promise<ClusterRig> {
    return new ClusterRig(await SandboxApiServer.start());
  }

  services(): readonly Service[] {
    return this.api.list(kinds.Service).filter(({ metadata }) => metadata?.name !== "kubernetes");
  }

  addService(name: string, more: Service["spec"] = {}, annotations: Readonly<Record<string, string>> = {}): Named {
    const { metadata, ...rest } = balancedService(name, more);
    const keys = Object.entries(annotations).map(([key, value]) => [`service.beta.kubernetes.io/${key}`, value]);
    const service = this.api.create(kinds.Service, {
      ...rest,
      metadata: { ...metadata, annotations: Object.fromEntries(keys) },
    });
    return { service, base: defaultLoadBalancerName(service) };
  }

  changeService(name: string, spec: Service["spec"]): void {
    const change = (service: Service): Service => ({ ...service, spec: { ...service.spec, ...spec } });
    this.api.update(kinds.Service, { namespace: "default", name }, change);
  }

  /** The product has written its status. */
  showAddress(name: string, ip: string): void {
    const change = (service: Service): Service => ({ ...service, status: { loadBalancer: { ingress: [{ ip }] } } });
    this.api.update(kinds.Service, { namespace: "default", name }, change, "status");
  }

  deleteService(name: string): void {
    this.api.delete(kinds.Service, { namespace: "default", name });
  }

  addNode(name: string, address: string): void {
    const addresses = [{ type: "InternalIP", address }];
    this.api.create(kinds.Node, { metadata: { name }, spec: { providerID: "azure:///1" }, status: { addresses } });
  }

  labelNode(name: string, label: string): void {
    const change = ({ metadata, ...rest }: Node): Node => ({
      ...rest,
      metadata: { ...metadata, labels: { [label]: "" } },
    });
    this.api.update(kinds.Node, { name }, change);
  }

  taintNode(name: string, key: string): void {
    const taint = { key, effect: "NoExecute" } as const;
    this.api.update(kinds.Node, { name }, (node) => ({ ...node, spec: { ...node.spec, taints: [taint] } }));
  }

  moveNode(name: string, ...now: readonly string[]): void {
    const addresses = now.map((address) => ({ type: "InternalIP", address }));
    this.api.update(kinds.Node, { name }, (node) => ({ ...node, status: { ...node.status, addresses } }), "status");
  }

  deleteNode(name: string): void {
    this.api.delete(kinds.Node, { name });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.api[Symbol.asyncDispose]();
  }
}
