import { answers } from "./schema.ts";

const listParameters = [
  ["filter", "string", "Keeps the rows that have this text in any value, in any case"],
  ["sort", "string", "A column; with - before it in descending order"],
  ["offset", "integer", "The first row"],
  ["limit", "integer", "At most 500 rows; default 100"],
].map(([name, type, description]) => ({ name, in: "query", description, schema: { type } }));

const named = (...names: readonly string[]) =>
  names.map((name) => ({ name, in: "path", required: true, schema: { type: "string" } }));

/** The paths below `/ui/api`, each with its schema: the table that requests, tests and this document share. */
export const paths = {
  "/overview": { answer: "overview", summary: "What is wrong now, and what was verified last", parameters: [] },
  "/leadership": { answer: "leadership", summary: "Locks, the generation, and what happened", parameters: [] },
  "/controllers": { answer: "controllers", summary: "Controllers, queues and their own sections", parameters: [] },
  "/services": { answer: "services", summary: "Services", parameters: listParameters },
  "/services/{namespace}/{name}": {
    answer: "object",
    summary: "One Service as a tree, its events and writes; reads from the cloud",
    parameters: named("namespace", "name"),
  },
  "/nodes": { answer: "nodes", summary: "Nodes", parameters: listParameters },
  "/nodes/{name}": {
    answer: "object",
    summary: "One node as a tree, its events and writes; reads from the cloud",
    parameters: named("name"),
  },
  "/cloud": { answer: "cloud", summary: "What the cloud shows of itself", parameters: [] },
  "/writes": {
    answer: "writes",
    summary: "The latest writes to the cloud and to Kubernetes",
    parameters: listParameters,
  },
  "/plan": {
    answer: "plan",
    summary: "The latest plan: what would be written now. It is made in the background, in a process of its own",
    parameters: [{ name: "new", in: "query", description: "Make another one", schema: { type: "boolean" } }],
  },
  "/runbook": {
    answer: "runbook",
    summary: "What to do about each trouble",
    parameters: [{ name: "row", in: "query", description: "Of one trouble", schema: { type: "string" } }],
  },
} as const satisfies Readonly<Record<string, Operation>>;

interface Operation {
  readonly answer: keyof typeof answers;
  readonly summary: string;
  readonly parameters: readonly object[];
}

/** The OpenAPI document of the console, made from its schemas. */
export function openApi(version: string): object {
  const operations = Object.entries(paths).map(([path, { answer, summary, parameters }]) => [
    `/ui/api${path}`,
    {
      get: {
        summary,
        parameters,
        responses: {
          200: {
            description: summary,
            content: { "application/json": { schema: { $ref: `#/components/schemas/${answer}` } } },
          },
          404: { description: "The object is not known here" },
        },
      },
    },
  ]);
  return {
    openapi: "3.1.0",
    info: {
      title: "cloud-controller-host console",
      version,
      description: "Read-only. Every answer is for this replica.",
    },
    paths: Object.fromEntries(operations),
    components: { schemas: answers },
  };
}
