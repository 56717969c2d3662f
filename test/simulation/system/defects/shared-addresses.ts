import type { Defects } from "./defect.ts";

const plan = "plugins/azure-cloud/load-balancer/plan";

/** Of addresses that several Services have. */
export const sharedAddressDefects: Defects = {
  "keeps open for a refused Service what another one closes": {
    file: `${plan}/security-group/kept-holder.ts`,
    from: "ports: keptPorts(draft, wanted, addresses, behind)",
    to: "ports: [...wanted.ports, ...(behind.ports.get(base) ?? [])]",
    needs: ["changeService"],
    kept: "a Service is refused for a port that another one narrows",
  },
  "closes the former port of a refused Service": {
    file: `${plan}/security-group/kept-holder.ts`,
    from: "return [...asked, ...own];",
    to: "return own.length < 0 ? own : asked;",
    needs: ["changeService"],
    kept: "a Service is refused for a port that another one narrows",
  },
  "closes what others have open on a shared address": {
    file: `${plan}/security-group/plan.ts`,
    from: "[...new Set(found)].filter((other) => other !== holder);",
    to: "found.filter((other) => other === holder).slice(1);",
    needs: ["changeService"],
    kept: "a Service is refused for a port that another one narrows",
  },
  "gives no two Services one internal address": {
    file: `${plan}/draft/frontends.ts`,
    from: 'return address === "" ? [] : ',
    to: "return address !== undefined ? [] : ",
    needs: ["changeService"],
    kept: "Services share an internal address",
  },
  "gives away the port of a Service whose write is in flight": {
    file: "plugins/azure-cloud/load-balancer/reconcile/tick.ts",
    from: "this.#plan(input, this.#others(input.intents));",
    to: "this.#plan(input, []);",
    needs: ["changeService", "createService", "killHost"],
    kept: "a Service asks for a port whose security rules are being written",
  },
  "deletes a public IP that another Service has": {
    file: `${plan}/public-ip/plan.ts`,
    from: 'return servicesIn(tags).length === 0 ? "delete" : {',
    to: 'return servicesIn(tags).length >= 0 ? "delete" : {',
    needs: ["deleteService"],
    kept: "a Service goes whose public IP another one has",
  },
  "forgets what a Service has opened on an address that it did not get": {
    file: `${plan}/security-group/holders.ts`,
    from: "(draft.observed.opened?.get(key) ?? [])",
    to: "(draft.observed.opened?.get(`no ${key}`) ?? [])",
    needs: ["reachQuota", "changeService"],
    kept: "a Service leaves a shared address on which a quota keeps it from having rules",
  },
};
