/** Worker thread that removes strings from heap snapshots in V8's format. Runs until terminated. */
import { parentPort } from "node:worker_threads";

interface Meta {
  readonly node_fields: readonly string[];
  readonly node_types: readonly [types: readonly string[]];
  readonly edge_fields: readonly string[];
  readonly edge_types: readonly [types: readonly string[]];
}

/** Flat tables of numbers, rows of `…_fields`; the first field is the type, the second the name. */
interface Snapshot {
  readonly snapshot: { readonly meta: Meta };
  readonly nodes: number[];
  readonly edges: readonly number[];
  readonly strings: string[];
}

/** Nodes whose name is the content of a string; other names are types, functions and symbols. */
const stringTypes: readonly string[] = ["string", "concatenated string", "sliced string"];
/** Edges with a number instead of a name. */
const numberedEdges: readonly string[] = ["element", "hidden"];

/** Gives all strings the same name, and clears every other string that names nothing. Property names stay. */
function blot(snapshot: Snapshot): Snapshot {
  const { node_fields, node_types, edge_fields, edge_types } = snapshot.snapshot.meta;
  const isString = node_types[0].map((type) => stringTypes.includes(type));
  const isNumbered = edge_types[0].map((type) => numberedEdges.includes(type));
  const { nodes, edges, strings } = snapshot;
  const blank = strings.length;
  const names = new Set([blank]);
  for (let at = 0; at < nodes.length; at += node_fields.length)
    if (isString[nodes[at] ?? 0] === true) nodes[at + 1] = blank;
    else names.add(nodes[at + 1] ?? 0);
  for (let at = 0; at < edges.length; at += edge_fields.length)
    if (isNumbered[edges[at] ?? 0] !== true) names.add(edges[at + 1] ?? 0);
  return { ...snapshot, strings: [...strings, "(string)"].map((text, index) => (names.has(index) ? text : "")) };
}

parentPort?.on("message", (bytes: ArrayBuffer) => {
  const snapshot: Snapshot = JSON.parse(new TextDecoder().decode(bytes));
  const blotted = new TextEncoder().encode(JSON.stringify(blot(snapshot)));
  parentPort?.postMessage(blotted, [blotted.buffer]);
});
