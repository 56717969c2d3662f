import { expect, test } from "bun:test";

import { defaultLoadBalancerName, type Service } from "cloud-controller-host/sdk";

import type { ServiceIntent } from "../../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import { plan } from "../../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { intentOf, plannerConfigOf } from "../../fixtures.ts";
import { converge, world } from "../../world.ts";

type Annotations = Readonly<Record<string, string>>;

/** The first public address of a world. */
const address = "20.0.0.1";

const creator = (annotations: Annotations): ServiceIntent =>
  intentOf({ name: "creator", annotations, spec: portOf(80) });

const guest = (annotations: Annotations): ServiceIntent =>
  intentOf({
    name: "guest",
    annotations: { "azure-load-balancer-ipv4": address, ...annotations },
    spec: portOf(443),
  });

const portOf = (port: number): NonNullable<Service["spec"]> => ({
  ports: [{ name: "p", protocol: "TCP", port, targetPort: port, nodePort: 30_000 + port }],
});

/** The public IP of the creator, once it is shared with the guest, the creator has changed, and nothing is left to write. */
function shared(first: Annotations, second: ServiceIntent, keys: Readonly<Record<string, unknown>> = {}, now = first) {
  const config = plannerConfigOf(keys);
  let observed = converge([creator(first)], world({ services: [creator(first).service] }), config).observed;
  for (const annotations of [first, now]) {
    const both = [creator(annotations), second];
    observed = converge(both, { ...observed, services: both.map(({ service }) => service) }, config).observed;
  }
  const one = observed.publicIPs.find(({ ipAddress }) => ipAddress === address);
  const { "k8s-azure-service": _service, "k8s-azure-cluster-name": _cluster, ...tags } = one?.tags ?? {};
  return { tags, ipTags: one?.ipTags?.map(({ ipTagType, tag }) => `${ipTagType}=${tag}`) };
}

const tags = (text: string): Annotations => ({ "azure-pip-tags": text });

test.each([
  ["the value of one tag stays that of the first one", tags("a=1"), tags("A=2"), {}, { a: "1" }],
  ["each has its tags", tags("a=1"), tags("b=2"), {}, { a: "1", b: "2" }],
  ["systemTags removes no tag of the other one", tags("a=1"), {}, { systemTags: "sys" }, { a: "1" }],
  ["systemTags leaves the tags of both", tags("a=1"), tags("b=2"), { systemTags: "sys" }, { a: "1", b: "2" }],
  ["a tag over that of the config stays", tags("a=1"), {}, { tags: "a=x,c=y" }, { a: "1", c: "y" }],
] as const)("two Services that share a public IP are done: %s", (_title, first, second, keys, expected) => {
  expect(shared(first, guest(second), keys).tags).toEqual({ ...expected });
});

test("two Services that share a public IP and ask for different IP tags are done", () => {
  const asks = (text: string): Annotations => ({ "azure-pip-ip-tags": `FirstPartyUsage=/${text}` });
  const keys = { enableIPTagMutationForExistingPublicIP: true };
  expect(shared(asks("a"), guest(asks("b")), keys).ipTags).toEqual(["FirstPartyUsage=/a"]);
  expect(shared({}, guest(asks("b")), keys).ipTags).toEqual(["FirstPartyUsage=/b"]);
  expect(shared(asks("a"), guest(asks("b")), keys, asks("c")).ipTags).toEqual(["FirstPartyUsage=/c"]);
});

test("a tag of a shared public IP changes when no Service there asks for its value any more", () => {
  const { tags: changed } = shared(tags("a=1,c=2"), guest(tags("a=2")), {}, tags("a=3,c=2"));
  expect(changed).toEqual({ a: "3", c: "2" });
});

/** Warnings of a plan of Services that share a public IP, once they are done, without those of earlier plans. */
function warningsOf(both: readonly ServiceIntent[], keys: Readonly<Record<string, unknown>> = {}): readonly string[] {
  const config = plannerConfigOf(keys);
  let observed = world({});
  // The public IP of the first one comes first.
  for (const intents of [both.slice(0, 1), both, both])
    observed = converge(intents, { ...observed, services: intents.map(({ service }) => service) }, config).observed;
  // Of a process that starts.
  const { results } = plan(both, { ...observed, publicIPs: [...observed.publicIPs] }, config);
  return [...results].flatMap(([key, { events }]) =>
    events.map(({ type, reason, message }) => `${type} ${reason} of ${key}: ${message}`),
  );
}

test.each<[string, Annotations, Annotations, string | undefined]>([
  [
    "one of another value",
    tags("a=1"),
    tags("b=2,A=2"),
    'azure-pip-tags: public IP NAME, which other Services share, keeps tag "a=1"',
  ],
  ["one of the same value", tags("a=X"), tags("A=x,b=2"), undefined],
  ["those that own it", {}, tags("k8s-azure-service=mine"), undefined],
])(
  "a Service that asks for tags on a public IP that another Service shares is warned of %s",
  (_what, first, second, lost) => {
    const name = `kubernetes-${defaultLoadBalancerName(creator({}).service)}`;
    const warning = `Warning AnnotationIgnored of default/guest: annotation service.beta.kubernetes.io/${lost?.replace("NAME", name)}`;
    expect(warningsOf([creator(first), guest(second)])).toEqual(lost === undefined ? [] : [warning]);
  },
);

test.each([true, false])(
  "a Service that asks for other IP tags on a public IP that another Service shares is warned of that, where they can be changed: %p",
  (enableIPTagMutationForExistingPublicIP) => {
    const asks = (text: string): Annotations => ({ "azure-pip-ip-tags": `FirstPartyUsage=/${text}` });
    const warned = (second: string): readonly string[] =>
      warningsOf([creator(asks("a")), guest(asks(second))], { enableIPTagMutationForExistingPublicIP });
    expect(warned("b")).toEqual([expect.stringContaining("azure-pip-ip-tags: public IP kubernetes-")]);
    expect(warned("a")).toEqual([]);
  },
);

const withService = (intent: ServiceIntent, change: (service: Service) => Service): ServiceIntent => ({
  ...intent,
  service: change(intent.service),
});

test.each([
  ["is internal", (one: ServiceIntent) => withAnnotation(one, "azure-load-balancer-internal", "true")],
  ["asks for other tags", (one: ServiceIntent) => withAnnotation(one, "azure-pip-tags", "c=3")],
  ["has another public IP", (one: ServiceIntent) => withAnnotation(one, "azure-pip-name", "my-pip")],
  [
    "is being deleted",
    (one: ServiceIntent) =>
      withService(one, (service) => ({
        ...service,
        metadata: { ...service.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" },
      })),
  ],
  [
    "has another type",
    (one: ServiceIntent) =>
      withService(one, (service) => ({ ...service, spec: { ...service.spec, type: "ClusterIP" } })),
  ],
] as const)(
  "the tags of a Service whose name is left on a public IP make no difference when it %s",
  (_title, change) => {
    const config = plannerConfigOf({ systemTags: "sys" });
    const [first, second] = [creator(tags("a=1")), guest(tags("b=2"))];
    const services = [first.service, second.service];
    const alone = converge([first], world({ services: [first.service] }), config).observed;
    const both = converge([first, second], { ...alone, services }, config).observed;
    const left = { ...both, services: [first.service, change(second).service] };
    const { observed } = converge([first], left, config);
    const one = observed.publicIPs.find(({ ipAddress }) => ipAddress === address);
    expect(one?.tags).toMatchObject({ "k8s-azure-service": "default/creator,default/guest", a: "1" });
    expect(one?.tags).not.toHaveProperty("b");
  },
);

const withAnnotation = (intent: ServiceIntent, key: string, value: string): ServiceIntent =>
  withService(intent, (service) => ({
    ...service,
    metadata: {
      ...service.metadata,
      annotations: { ...service.metadata?.annotations, [`service.beta.kubernetes.io/${key}`]: value },
    },
  }));

test.each([
  ["the label of the first one stays", "one", "two", "one"],
  ["an empty one does not remove it", "", "two", "two"],
])(
  "two Services that share a user's public IP and ask for different DNS labels are done: %s",
  (_title, first, second, expected) => {
    const config = plannerConfigOf();
    const asks = (label: string): Annotations => ({ "azure-dns-label-name": label, "azure-pip-name": "my-pip" });
    const both = [creator(asks(first)), creator(asks(second))].map((intent, index) =>
      withService(intent, (service) => ({
        ...service,
        metadata: { ...service.metadata, name: `web-${index}`, uid: `web-${index}` },
        spec: { ...service.spec, ...portOf(80 + index) },
      })),
    );
    const { observed } = converge(both, world({ services: both.map(({ service }) => service) }), config);
    expect(observed.publicIPs.find(({ name }) => name === "my-pip")?.dnsSettings?.domainNameLabel).toBe(expected);
    const { results } = plan(both, { ...observed, publicIPs: [...observed.publicIPs] }, config);
    const warned = [...results].filter(([, { events }]) => events.some(({ message }) => message.includes("DNS label")));
    expect(warned.map(([key]) => key)).toEqual([expected === "one" ? "default/web-1" : "default/web-0"]);
  },
);

test.each([
  ["tags", tags("a=1"), tags("a=2"), "kubernetes-", "2"],
  [
    "DNS label of a user's public IP",
    { "azure-dns-label-name": "one", "azure-pip-name": "my-pip" },
    { "azure-dns-label-name": "two", "azure-pip-name": "my-pip" },
    "my-pip",
    "two",
  ],
] as const)(
  "a Service changes its %s also while the list of Services has its former version",
  (_title, before, after, name, expected) => {
    const config = plannerConfigOf();
    const former = creator(before);
    const alone = converge([former], world({ services: [former.service] }), config).observed;
    const { observed } = converge([creator(after)], { ...alone, services: [former.service] }, config);
    const one = observed.publicIPs.find((found) => found.name?.startsWith(name));
    expect([one?.tags?.["a"], one?.dnsSettings?.domainNameLabel]).toContain(expected);
  },
);
