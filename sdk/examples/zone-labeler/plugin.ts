import {
  defineController,
  keyOf,
  kinds,
  labelOf,
  labels,
  type Node,
  type Static,
  Type,
} from "cloud-controller-host/sdk";

/** Each property becomes a flag: `--zone-labeler-controller-label` and `--zone-labeler-controller-workers`. */
const configSchema = Type.Object(
  {
    label: Type.String({ default: "example.com/zone-short", description: "Key of the label to set on nodes." }),
    workers: Type.Integer({ default: 2, minimum: 1, description: "Number of nodes that are labeled concurrently." }),
  },
  { additionalProperties: false },
);

/** `eastus-1` becomes `1`: the part of the zone after its region. */
const shortZone = (node: Node): string | undefined => labelOf(node, labels.zone)?.split("-").at(-1);

/** Sets a label with the short name of the zone on every node that has a zone. */
export default defineController({
  name: "zone-labeler-controller",
  configSchema,
  permissions: [
    { apiGroup: "", resources: ["nodes"], verbs: ["list", "watch", "patch"] },
    { apiGroup: "", resources: ["events"], verbs: ["create", "patch"] },
  ],
  construct:
    (_initContext, { own }: { readonly own: Static<typeof configSchema> }) =>
    (context) => {
      const nodes = context.informers.of(kinds.Node);
      const queue = context.workqueue("zone-labeler");
      const labeled = context.metrics.counter({ name: "zone_labeler_labels_total", help: "Labels that were set." });
      nodes.handle({ added: (node) => queue.add(keyOf(node)), updated: (_before, node) => queue.add(keyOf(node)) });

      const sync = async (name: string): Promise<void> => {
        const node = nodes.store.get(name);
        const zone = node === undefined ? undefined : shortZone(node);
        if (node === undefined || zone === undefined || labelOf(node, own.label) === zone) return;
        await context.client.patch(kinds.Node, { name }, "merge", { metadata: { labels: { [own.label]: zone } } });
        labeled.inc();
        context.events.event(node, "Normal", "ZoneLabeled", `Set label ${own.label}=${zone}`);
      };
      return { run: (signal) => queue.process({ workers: own.workers, signal, sync }) };
    },
});
