import { defaultLoadBalancerName, type Service } from "cloud-controller-host/sdk";

import { type JsonObject, objectsAt } from "../../../../plugins/azure-cloud/json.ts";
import { type AzureView, isOn, nameOf, portOf, propertiesOf } from "../azure-view.ts";
import type { World } from "../world.ts";
import { annotationOf, isBalanced, isInternal, requestedAddress } from "./wishes.ts";

/** What it reads of the world. */
type Scene = Pick<World, "cluster" | "forgiven" | "services" | "view">;

const hasInvalidTimeout = (service: Service): boolean =>
  annotationOf(service, "azure-load-balancer-tcp-idle-timeout") === "1";

/** True if it asks for another name of its private link service, which cannot change. */
function renamesLink(world: Scene, service: Service): boolean {
  const name = annotationOf(service, "azure-pls-name");
  if (name === undefined || annotationOf(service, "azure-pls-create") !== "true" || !isBalanced(service)) return false;
  const base = defaultLoadBalancerName(service);
  const frontends = (link: JsonObject): readonly JsonObject[] =>
    objectsAt(propertiesOf(link), "loadBalancerFrontendIpConfigurations");
  return world
    .view()
    .ofType("privatelinkservices")
    .some((link) => nameOf(link) !== name && frontends(link).some(({ id }) => String(id).includes(`/${base}`)));
}

const isInvalid = (world: Scene, service: Service): boolean =>
  hasInvalidTimeout(service) || renamesLink(world, service);

/** True if the product cannot give a Service what it asks for: its user hears of it, and it keeps what it has. */
export const isRefused = (world: Scene, service: Service): boolean =>
  isInvalid(world, service) || isContested(world, service, () => true);

export const refusedIn = (world: Scene): readonly Service[] =>
  world.services().filter((service) => isRefused(world, service));

/** The same for as long as no other Service does something about it. */
export const isHeld = (world: Scene, service: Service): boolean =>
  isInvalid(world, service) || isContested(world, service, wantsRule);

/** Tells if the Service that has a rule on a frontend still asks for both. */
type Counts = (view: AzureView, other: Service, frontend: JsonObject, rule: JsonObject) => boolean;

const wantsRule: Counts = (view, other, frontend, rule) =>
  wantedFrontend(view, other)?.(frontend) === true && portsOf(other).has(portOf(rule));

const portsOf = ({ spec }: Service): ReadonlySet<string> =>
  new Set(spec?.ports?.map(({ protocol = "TCP", port }) => `${protocol} ${port}`));

/** True if other Services have what it asks for: a port of its address, or its frontend, which has another address. */
function isContested(world: Scene, service: Service, counts: Counts): boolean {
  if (!world.cluster.sharesAddresses || !isBalanced(service)) return false;
  const view = world.view();
  const isWanted = wantedFrontend(view, service);
  if (isWanted === undefined) return true;
  const balancer = view.balancers.find((one) => nameOf(one) === `kubernetes${isInternal(service) ? "-internal" : ""}`);
  const base = defaultLoadBalancerName(service);
  const others = [...world.services().filter(isBalanced), ...world.forgiven].filter(
    (other) => defaultLoadBalancerName(other) !== base,
  );
  const rules = objectsAt(propertiesOf(balancer), "loadBalancingRules").flatMap((rule) => {
    const owner = others.find((other) => nameOf(rule).startsWith(defaultLoadBalancerName(other)));
    return owner === undefined ? [] : [[rule, owner] as const];
  });
  const ports = portsOf(service);
  return objectsAt(propertiesOf(balancer), "frontendIPConfigurations").some((frontend) => {
    const users = rules.filter(([rule, owner]) => isOn(rule, frontend) && counts(view, owner, frontend, rule));
    if (isWanted(frontend)) return users.some(([rule]) => ports.has(portOf(rule)));
    return nameOf(frontend).startsWith(base) && users.length > 0;
  });
}

/** Tells frontends that have the address which a Service asks for; undefined: no public IP has it. */
function wantedFrontend(view: AzureView, service: Service): ((frontend: JsonObject) => boolean) | undefined {
  const base = defaultLoadBalancerName(service);
  const named = annotationOf(service, "azure-pip-name");
  const address = requestedAddress(service);
  const isOf = (name: string) => (frontend: JsonObject) => view.publicIPOf(propertiesOf(frontend))?.["name"] === name;
  if (named !== undefined) return isOf(named);
  if (address === undefined)
    return isInternal(service) ? (frontend) => nameOf(frontend).startsWith(base) : isOf(`kubernetes-${base}`);
  if (!isInternal(service) && !view.publicIPs.some((one) => propertiesOf(one)["ipAddress"] === address))
    return undefined;
  return (frontend) => view.addressOf(propertiesOf(frontend)) === address;
}
