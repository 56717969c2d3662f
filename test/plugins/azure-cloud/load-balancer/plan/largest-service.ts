/** The largest Services that validation allows, and a program that measures the cost of planning one of them. */
import type { Observed } from "../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import { plan } from "../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { slowness } from "../../../../kit/processor-time.ts";
import { applied } from "../applied.ts";
import { intentOf, plannerConfigOf, type ServiceShape } from "../fixtures.ts";
import { nodesNamed, world } from "../world.ts";

export const portsOf = (count: number, protocols: readonly string[] = ["TCP"]) =>
  Array.from({ length: count }, (_, index) => ({
    name: `p${index}`,
    protocol: protocols[index % protocols.length] ?? "TCP",
    port: 1 + Math.floor(index / protocols.length),
    nodePort: 30_000 + index,
  }));

export const tagsOf = (count: number): string => Array.from({ length: count }, (_, index) => `Tag${index}`).join();
export const addressesOf = (count: number): string =>
  Array.from({ length: count }, (_, index) => `100.0.${index >> 8}.${index & 255}`).join();
/** Ranges of which no two can be joined. */
export const rangesOf = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, index) => `${20 + (index >> 13)}.${(index >> 5) & 255}.${(index & 31) * 8}.0/24`);

const dual = { ipFamilies: ["IPv4", "IPv6"] };
const internal = { "azure-load-balancer-internal": "true" };
const direct = { "azure-disable-load-balancer-floating-ip": "true" };

export const largest: Readonly<Record<string, ServiceShape>> = {
  ports: { spec: { ports: portsOf(1500, ["TCP", "UDP"]) } },
  "ports of both families": { spec: { ...dual, ports: portsOf(750) } },
  "ports and tags": {
    annotations: { "azure-allowed-service-tags": tagsOf(200) },
    spec: { ...dual, ports: portsOf(750, ["TCP", "UDP"]) },
  },
  "tags of three protocols": {
    annotations: { ...internal, "azure-allowed-service-tags": tagsOf(166) },
    spec: { ...dual, ports: portsOf(600, ["TCP", "UDP", "SCTP"]) },
  },
  "tags and addresses": {
    annotations: { "azure-allowed-service-tags": tagsOf(40), "azure-additional-public-ips": addressesOf(98) },
  },
  ranges: { annotations: { "azure-allowed-ip-ranges": rangesOf(3999).join() } },
  "ranges of the spec": { spec: { loadBalancerSourceRanges: [...rangesOf(3999)] } },
  "ports without floating IP": { annotations: direct, spec: { ports: portsOf(1500) } },
  "annotations of ports": {
    annotations: Object.fromEntries(
      portsOf(1500).map(({ port }) => [`port_${port}_health-probe_interval`, "10"] as const),
    ),
    spec: { ports: portsOf(1500) },
  },
};

/**
 * CPU time of the fastest of many plans, of which compilers and a busy machine have their share, and memory of a dozen,
 * for a Service that is new and one that exists.
 */
function measure(shape: ServiceShape) {
  // Pools of interfaces have room for fewer rules.
  const config = plannerConfigOf({ loadBalancerBackendPoolConfigurationType: "nodeIP" });
  const nodes = nodesNamed("node-0", "node-1");
  const start = world({ nodes });
  const created = applied(start, plan([intentOf({ nodes, ...shape })], start, config));
  const timeOf = (observed: Observed): number => {
    const intents = [intentOf({ nodes, ...shape })];
    const begun = process.cpuUsage();
    const { results } = plan(intents, observed, config);
    const { user, system } = process.cpuUsage(begun);
    if (results.get("default/web")?.problem !== undefined) throw new Error("the Service is refused");
    return (user + system) / 1000;
  };
  const timesOf = (count: number) => Array.from({ length: count }, () => [timeOf(start), timeOf(created)] as const);
  const before = process.memoryUsage.rss();
  const dozen = timesOf(6);
  const megabytes = (process.memoryUsage.rss() - before) / 2 ** 20;
  const times = [...dozen, ...timesOf(14)];
  const fresh = Math.min(...times.map(([one]) => one));
  const again = Math.min(...times.map(([, one]) => one));
  return `${Math.max(fresh, again) / slowness()} ${megabytes}`;
}

if (import.meta.main) {
  const shape = largest[process.argv[2] ?? ""];
  if (shape !== undefined) process.stdout.write(measure(shape));
}
