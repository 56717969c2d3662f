import { pluginReadme } from "./plugin-readme.ts";

/** A file of a new plugin's folder: its name and content. */
export type TemplateFiles = Readonly<Record<string, string>>;

export interface TemplateInput {
  /** The plugin's name. */
  readonly name: string;
  /** Path from the new folder to this package, for `package.json`. */
  readonly packagePath: string;
}

/** The files of a new plugin by kind. */
export const templates: Readonly<Record<string, (input: TemplateInput) => TemplateFiles>> = {
  controller: (input) => ({
    "plugin.ts": controllerPlugin(input),
    "plugin.test.ts": controllerTest,
    "README.md": pluginReadme("controller", input.name),
    ...projectFiles(input),
  }),
  cloud: (input) => ({
    "plugin.ts": cloudPlugin(input),
    "plugin.test.ts": cloudTest,
    "README.md": pluginReadme("cloud", input.name),
    ...projectFiles(input),
  }),
  webhook: (input) => ({
    "plugin.ts": webhookPlugin(input),
    "plugin.test.ts": webhookTest,
    "README.md": pluginReadme("webhook", input.name),
    ...projectFiles(input),
  }),
};

const json = (value: object): string => `${JSON.stringify(value, undefined, 2)}\n`;

const projectFiles = ({ name, packagePath }: TemplateInput): TemplateFiles => ({
  "package.json": json({
    name,
    version: "0.1.0",
    private: true,
    type: "module",
    scripts: { check: "bun check --no-script", test: "bun --no-install test" },
    devDependencies: { "@types/bun": "1.4.4", "cloud-controller-host": `file:${packagePath}` },
  }),
  "tsconfig.json": json({
    compilerOptions: {
      target: "esnext",
      module: "nodenext",
      lib: ["esnext"],
      types: ["bun"],
      strict: true,
      noEmit: true,
      allowImportingTsExtensions: true,
      verbatimModuleSyntax: true,
      skipLibCheck: true,
    },
    include: ["."],
  }),
});

const controllerPlugin = ({ name }: TemplateInput): string => `import {
  annotationOf,
  defineController,
  keyOf,
  kinds,
  type Static,
  Type,
} from "cloud-controller-host/sdk";

/** Each property becomes a flag: \`--${name}-workers\`. */
const configSchema = Type.Object(
  { workers: Type.Integer({ default: 1, minimum: 1, description: "Number of nodes that are processed concurrently." }) },
  { additionalProperties: false },
);

const annotation = "example.com/${name}";

/** Sets an annotation on every node. Replace \`sync\` with your own work. */
export default defineController({
  name: "${name}",
  configSchema,
  permissions: [{ apiGroup: "", resources: ["nodes"], verbs: ["list", "watch", "patch"] }],
  construct: (_initContext, { own }: { readonly own: Static<typeof configSchema> }) => (context) => {
    const nodes = context.informers.of(kinds.Node);
    const queue = context.workqueue("${name}");
    nodes.handle({ added: (node) => queue.add(keyOf(node)), updated: (_before, node) => queue.add(keyOf(node)) });

    /** Called for each key, again with a backoff after it throws. Writes only when something has to change. */
    const sync = async (name: string): Promise<void> => {
      const node = nodes.store.get(name);
      if (node === undefined || annotationOf(node, annotation) === "seen") return;
      await context.client.patch(kinds.Node, { name }, "merge", { metadata: { annotations: { [annotation]: "seen" } } });
      context.log.info("Annotated node", { node: name });
    };
    return { run: (signal) => queue.process({ workers: own.workers, signal, sync }) };
  },
});
`;

const controllerTest = `import { describe, expect, setDefaultTimeout, test } from "bun:test";

import { kinds } from "cloud-controller-host/sdk";
import { controllerConformance, eventually, memoryCloud } from "cloud-controller-host/sdk/testing";
import { controllerHarness, TestCluster } from "cloud-controller-host/sandbox";

import plugin from "./plugin.ts";

// Longer than the limit of \`eventually\`, whose error names what did not happen.
setDefaultTimeout(60_000);

test("annotates a new node with one request", async () => {
  await using cluster = await TestCluster.start();
  await cluster.run(plugin, { cloud: memoryCloud().cloud });
  await cluster.admin.create(kinds.Node, { metadata: { name: "node-1" } });
  await eventually("the node has the annotation", () => {
    const node = cluster.api.get(kinds.Node, { name: "node-1" });
    return node?.metadata?.annotations?.[\`example.com/\${plugin.name}\`] === "seen";
  });
  expect(cluster.writes()).toHaveLength(1);
});

describe("controller conformance", () => {
  for (const { name, run } of controllerConformance(plugin, controllerHarness())) test(name, run);
});
`;

const cloudPlugin = ({ name }: TemplateInput): string => `import {
  type Cloud,
  decode,
  defineCloud,
  InstanceNotFoundError,
  keyOf,
  type Node,
  type Static,
  Type,
} from "cloud-controller-host/sdk";

const instance = Type.Object(
  { internalIP: Type.String(), zone: Type.Optional(Type.String()), shutdown: Type.Optional(Type.Boolean()) },
  { additionalProperties: false },
);

/** The document of \`--cloud-config\`. A reload reads it again. */
const configSchema = Type.Object(
  { instances: Type.Record(Type.String(), instance, { default: {}, description: "Instances by node name." }) },
  { additionalProperties: false },
);

/** A cloud whose instances are listed in its config. Replace the lookups with calls of your cloud's API. */
export function createCloud({ instances }: Static<typeof configSchema>): Cloud {
  const find = (node: Node, signal: AbortSignal | undefined) => {
    signal?.throwIfAborted();
    return Promise.resolve(instances[keyOf(node)]);
  };
  return {
    name: "${name}",
    hasClusterID: true,
    instances: {
      // False means deleted: the node is removed. When the API does not answer, throw.
      instanceExists: async (node, options) => (await find(node, options?.signal)) !== undefined,
      instanceShutdown: async (node, options) => (await find(node, options?.signal))?.shutdown ?? false,
      async instanceMetadata(node, options) {
        const found = await find(node, options?.signal);
        if (found === undefined) throw new InstanceNotFoundError(keyOf(node));
        return {
          providerID: \`${name}://\${keyOf(node)}\`,
          instanceType: "",
          nodeAddresses: [{ type: "InternalIP", address: found.internalIP }],
          zone: found.zone ?? "",
          region: "",
        };
      },
    },
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

export default defineCloud<Static<typeof configSchema>>({
  name: "${name}",
  configSchema,
  decode: (document) => decode(configSchema, document),
  create: (config) => Promise.resolve(createCloud(config)),
});
`;

const cloudTest = `import { describe, expect, test } from "bun:test";

import { cloudConformance, type CloudHarness } from "cloud-controller-host/sdk/testing";

import plugin, { createCloud } from "./plugin.ts";

const harness: CloudHarness = {
  open: () =>
    Promise.resolve({
      cloud: createCloud({ instances: { "node-1": { internalIP: "10.0.0.1", zone: "z1", shutdown: false } } }),
      clusterName: "kubernetes",
      node: { metadata: { name: "node-1" } },
      ghost: { metadata: { name: "ghost" } },
      writes: () => 0,
      delayAnswers: () => undefined,
      [Symbol.asyncDispose]: () => Promise.resolve(),
    }),
};

/** Remove this entry once the cloud calls an API, and let the harness delay the API's replies. */
const skip = {
  "a call rejects when its signal aborts while the backend does not reply": "the config is read from memory",
};

describe("cloud conformance", () => {
  for (const { name, run, skip: reason } of cloudConformance(harness, { skip }))
    test.skipIf(reason !== undefined)(name, run);
});

test("rejects an unknown key of the config", () => {
  expect(plugin.bind({ instance: {} }, {}).ok).toBe(false);
});
`;

const webhookPlugin = ({
  name,
}: TemplateInput): string => `import { annotationOf, defineWebhook, type Service } from "cloud-controller-host/sdk";

const annotation = "example.com/${name}";

/** Denies Services of type LoadBalancer without the annotation. Replace \`admit\` with your own rule. */
export default defineWebhook<Service>({
  name: "${name}",
  path: "/${name}",
  rules: [{ apiGroups: [""], apiVersions: ["v1"], resources: ["services"], operations: ["CREATE"] }],
  admit({ object }) {
    if (object?.spec?.type !== "LoadBalancer" || annotationOf(object, annotation) !== undefined)
      return { allowed: true };
    return { allowed: false, message: \`set the annotation \${annotation}\` };
  },
});
`;

const webhookTest = `import { describe, expect, test } from "bun:test";

import { webhookConformance } from "cloud-controller-host/sdk/testing";

import plugin from "./plugin.ts";

const service = (type: string, annotations = {}) => ({ metadata: { name: "web", annotations }, spec: { type } });
const annotation = \`example.com/\${plugin.name}\`;

describe("webhook conformance", () => {
  const cases = [
    { name: "a ClusterIP Service is allowed", object: service("ClusterIP"), allowed: true },
    { name: "a LoadBalancer without the annotation is denied", object: service("LoadBalancer"), allowed: false },
    { name: "a LoadBalancer with it is allowed", object: service("LoadBalancer", { [annotation]: "x" }), allowed: true },
  ];
  for (const { name, run } of webhookConformance(plugin, { cases })) test(name, run);
});

test("is served at its own path", () => {
  expect(plugin.path).toBe(\`/\${plugin.name}\`);
});
`;
