import { messageOf } from "cloud-controller-host/sdk";

import type { PrivateCopies } from "../generation/plugins/private-copies.ts";
import type { ProcessParts } from "./process-parts.ts";

/**
 * Reports a rejection or an exception that no code has handled, attributed to the plugin where the stack shows it. Such
 * an error never ends the process: a timer of one plugin must not stop the controllers of all.
 */
export function reportUnhandled(
  error: unknown,
  { log, metrics }: Pick<ProcessParts, "log" | "metrics">,
  copies: Pick<PrivateCopies, "pluginIn" | "restorePaths" | "locate">,
): void {
  const stack = error instanceof Error ? (error.stack ?? "") : "";
  const plugin = copies.pluginIn(stack) ?? "";
  metrics.root
    .counter<"plugin">({
      name: "host_unhandled_errors_total",
      help: "Rejections and exceptions that no code handled, by the plugin that the stack shows; empty if none.",
      labels: ["plugin"],
    })
    .inc({ plugin });
  const at = copies.restorePaths(/\n\s*at [^\n]*/.exec(stack)?.[0].trim() ?? "");
  log.error("Unhandled error", { plugin, reason: messageOf(error), at, ...copies.locate(error) });
}
