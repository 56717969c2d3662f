import type { Logger } from "../context.ts";
import type { KubeObject } from "../kinds.ts";
import { namePattern } from "../names.ts";
import type { AdmissionOperation, AdmissionRequest, AdmissionResponse, WebhookPlugin } from "../webhook.ts";
import { type ConformanceTest, must, within, withSkips } from "./conformance.ts";
import { manualClock } from "./manual-clock.ts";

/** One request and the expected decision. */
export interface WebhookCase {
  readonly name: string;
  readonly object?: KubeObject;
  readonly oldObject?: KubeObject;
  /** Default `CREATE`. */
  readonly operation?: AdmissionOperation;
  readonly allowed: boolean;
}

const silent: Logger = {
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  debug: () => undefined,
  with: () => silent,
};

/** Tests of the `WebhookPlugin` contract and of the given cases, for any test runner. */
export function webhookConformance(
  plugin: WebhookPlugin,
  options: {
    readonly cases: readonly WebhookCase[];
    readonly limitMs?: number;
    readonly skip?: Readonly<Record<string, string>>;
  },
): readonly ConformanceTest[] {
  const { cases, limitMs = 5_000 } = options;
  const admit = (one: WebhookCase): Promise<AdmissionResponse> => {
    const context = { log: silent, clock: manualClock(), signal: AbortSignal.timeout(limitMs) };
    return within(limitMs, `"${one.name}" must be decided`, plugin.admit(requestOf(plugin, one), context));
  };
  const tests: readonly ConformanceTest[] = [
    { name: "declares name, path and rules", run: async () => declares(plugin) },
    ...cases.map((one) => ({
      name: one.name,
      async run() {
        const { allowed, message } = await admit(one);
        must(allowed === one.allowed, `it was ${allowed ? "allowed" : `denied: ${message ?? "no message"}`}`);
      },
    })),
    {
      name: "a denial has a message",
      async run() {
        for (const one of cases.filter(({ allowed }) => !allowed))
          must(Boolean((await admit(one)).message), `"${one.name}" is denied without a message for the user`);
      },
    },
    {
      name: "the decision is stable and does not modify the request",
      async run() {
        for (const one of cases) {
          const before = JSON.stringify(one);
          const first = JSON.stringify(await admit(one));
          must(first === JSON.stringify(await admit(one)), `"${one.name}" is decided differently the second time`);
          must(before === JSON.stringify(one), `"${one.name}" modified the request`);
        }
      },
    },
    {
      name: "only a mutating webhook returns a patch",
      async run() {
        if (plugin.type === "mutating") return;
        for (const one of cases)
          must((await admit(one)).patch === undefined, `"${one.name}" returned a patch: declare type: "mutating"`);
      },
    },
  ];
  return withSkips(tests, options.skip);
}

function declares({ name, path, rules }: WebhookPlugin): void {
  must(namePattern.test(name), `the name "${name}" must be lower-case words joined by hyphens`);
  must(path.startsWith("/"), `the path "${path}" must start with "/"`);
  must(rules.length > 0, "rules is empty: the API server would never call it");
  for (const { resources, operations } of rules)
    must(resources.length > 0 && operations.length > 0, "each rule needs resources and operations");
}

function requestOf({ rules }: WebhookPlugin, one: WebhookCase): AdmissionRequest {
  const { object, oldObject, operation = "CREATE" } = one;
  const [rule] = rules;
  const { name = "", namespace } = (object ?? oldObject)?.metadata ?? {};
  const group = rule?.apiGroups[0] ?? "";
  const version = rule?.apiVersions[0] ?? "";
  return {
    uid: "00000000-0000-4000-8000-000000000000",
    kind: { group, version, kind: (object ?? oldObject)?.kind ?? "" },
    resource: { group, version, resource: rule?.resources[0] ?? "" },
    name,
    ...(namespace === undefined ? {} : { namespace }),
    operation,
    userInfo: { username: "conformance", groups: ["system:authenticated"] },
    object: object ?? null,
    oldObject: oldObject ?? null,
  };
}
