import { isUninitialized, kinds, labelOf, labels, type Node } from "cloud-controller-host/sdk";

import type { Sandbox } from "./open.ts";

type Say = (line: string) => void;

/** Tells, a line each, what changes in the sandbox, until the signal aborts: nodes, generations, refused reloads. */
export async function tellChanges(sandbox: Sandbox, say: Say, signal: AbortSignal): Promise<void> {
  const nodes = new Map(sandbox.api.list(kinds.Node).map((node) => [nameOf(node), describeNode(node)]));
  const host = new HostTeller(sandbox, say);
  while (!signal.aborted) {
    await pause(signal);
    tellNodes(sandbox, nodes, say);
    host.tell();
  }
}

const nameOf = (node: Node): string => node.metadata?.name ?? "";

/** One line about a node: whether it waits for the cloud and, once it does not, what the cloud said. */
function describeNode(node: Node): string {
  if (isUninitialized(node)) return "waits to be initialised";
  const address = node.status?.addresses?.find(({ type }) => type === "InternalIP")?.address ?? "no address";
  const zone = labelOf(node, labels.zone) ?? "no zone";
  return `initialised: zone ${zone}, ${address}, ${node.spec?.providerID ?? "no providerID"}`;
}

function tellNodes({ api }: Sandbox, known: Map<string, string>, say: Say): void {
  const current = new Map(api.list(kinds.Node).map((node) => [nameOf(node), describeNode(node)]));
  for (const [name, text] of current) if (known.get(name) !== text) say(`node ${name} ${text}`);
  for (const name of known.keys()) if (!current.has(name)) say(`node ${name} is gone`);
  known.clear();
  for (const [name, text] of current) known.set(name, text);
}

class HostTeller {
  readonly #sandbox: Sandbox;
  readonly #say: Say;
  #generation: number;
  #refusedAt: string | undefined;
  #disabled = false;

  constructor(sandbox: Sandbox, say: Say) {
    this.#sandbox = sandbox;
    this.#say = say;
    this.#generation = sandbox.host.status.generation;
  }

  tell(): void {
    const { generation, configHash, lastRefusal, disabled } = this.#sandbox.host.status;
    if (generation !== this.#generation && generation > 0)
      this.#say(`generation ${generation} runs (config ${configHash}), under the same lease`);
    if (lastRefusal !== undefined && lastRefusal.at !== this.#refusedAt)
      this.#say(`reload refused, generation ${generation} goes on: ${lastRefusal.reason}`);
    if (disabled !== this.#disabled)
      this.#say(disabled ? "the cloud provider is disabled; the lease is still held" : "the cloud provider is enabled");
    this.#generation = generation;
    this.#refusedAt = lastRefusal?.at;
    this.#disabled = disabled;
  }
}

const pause = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(finish, 150);
    function finish(): void {
      clearTimeout(timer);
      signal.removeEventListener("abort", finish);
      resolve();
    }
    signal.addEventListener("abort", finish, { once: true });
  });
