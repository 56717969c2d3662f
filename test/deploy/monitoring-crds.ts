const text = { type: "string" } as const;
const texts = { type: "array", items: text } as const;
const labels = { type: "object", additionalProperties: text } as const;
const listOf = (properties: object, required: readonly string[] = []): object => ({
  type: "array",
  items: { type: "object", properties, required },
});

const secretKey = {
  type: "object",
  properties: { name: text, key: text, optional: { type: "boolean" } },
  required: ["key"],
} as const;

const relabeling = { sourceLabels: texts, targetLabel: text, action: text, regex: text, replacement: text } as const;

const duration = { ...text, pattern: "^[0-9]+(ms|s|m|h)$" } as const;

const endpoints = listOf({
  port: text,
  scheme: { ...text, enum: ["http", "https"] },
  path: text,
  interval: duration,
  scrapeTimeout: duration,
  authorization: { type: "object", properties: { type: text, credentials: secretKey } },
  relabelings: listOf(relabeling),
  metricRelabelings: listOf(relabeling),
  tlsConfig: {
    type: "object",
    properties: {
      insecureSkipVerify: { type: "boolean" },
      serverName: text,
      ca: { type: "object", properties: { secret: secretKey } },
    },
  },
});

const selector = { type: "object", properties: { matchLabels: labels } } as const;

const rule = { alert: text, expr: text, for: text, labels, annotations: labels } as const;
const prometheusRule = { groups: listOf({ name: text, rules: listOf(rule, ["expr"]) }, ["name"]) } as const;

function definition(kind: string, plural: string, spec: object): object {
  const group = "monitoring.coreos.com";
  const schema = { type: "object", properties: { spec: { type: "object", properties: spec } }, required: ["spec"] };
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: "Namespaced",
      names: { kind, plural, singular: kind.toLowerCase() },
      versions: [{ name: "v1", served: true, storage: true, schema: { openAPIV3Schema: schema } }],
    },
  };
}

/**
 * Stand-ins for the Prometheus operator's definitions: of its fields those that the chart uses, under the names and
 * types of its API reference, and no others, so that strict validation refuses what is misspelt.
 */
export const monitoringDefinitions: readonly object[] = [
  definition("ServiceMonitor", "servicemonitors", { selector, endpoints }),
  definition("PodMonitor", "podmonitors", { selector, podMetricsEndpoints: endpoints }),
  definition("PrometheusRule", "prometheusrules", prometheusRule),
];
