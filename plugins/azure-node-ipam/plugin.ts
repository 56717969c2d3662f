import { controllerAliases, controllerNames, defineController, skipped } from "cloud-controller-host/sdk";

/** Gives nodes their pod CIDRs. */
export default defineController({
  name: controllerNames.nodeIPAM,
  aliases: controllerAliases[controllerNames.nodeIPAM] ?? [],
  initContext: { clientName: "node-controller" },
  construct: () => () => skipped("the allocators are not part of this version yet"),
});
