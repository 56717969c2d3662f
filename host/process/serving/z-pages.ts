import { timestamp } from "cloud-controller-host/sdk";

import { mediaRanges } from "../metrics/exposition.ts";

/** The facts of the pages that Kubernetes components share. */
export interface ZPages {
  readonly component: string;
  readonly version: string;
  readonly startedAt: () => Date;
  readonly now: () => number;
  readonly flags: () => Readonly<Record<string, string>>;
}

type Kind = "Statusz" | "Flagz";
const group = "config.k8s.io";
/** v1alpha1 is deprecated since Kubernetes 1.36; both have the same fields. */
const versions = ["v1beta1", "v1alpha1"];
const paths = ["/configz", "/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz"];
const caution =
  "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.";

/**
 * `/statusz` or `/flagz` in the form of Kubernetes components, if the `Accept` header asks for it: text, or JSON with the
 * parameters `g`, `v` and `as`. Undefined if the client accepts this program's own form, the default without a
 * preference. Source: KEP-4827, KEP-4828, kubernetes/apiserver `server/statusz` and `server/flagz`.
 */
export function zPage(kind: Kind, accept: string, facts: ZPages): Response | undefined {
  const ranges = mediaRanges(accept)
    .filter(({ q }) => q > 0)
    .toSorted((one, other) => other.q - one.q);
  for (const { type, parameters } of ranges) {
    if (["", "*/*", "application/*"].includes(type)) return undefined;
    if (type === "text/plain" || type === "text/*") return plain(kind, facts);
    if (type !== "application/json") continue;
    const version = parameters.get("v");
    if (version === undefined && !parameters.has("as") && !parameters.has("g")) return undefined;
    const isOurs = parameters.get("g") === group && parameters.get("as") === kind.toLowerCase();
    if (isOurs && version !== undefined && versions.includes(version)) return structured(kind, version, facts);
  }
  const forms = versions.map((version) => `application/json;g=${group};v=${version};as=${kind}`);
  const body = `only the following media types are accepted: application/json, text/plain, ${forms.join(", ")}\n`;
  return new Response(body, { status: 406, headers: { "Content-Type": "text/plain; charset=utf-8" } });
}

function structured(kind: Kind, version: string, facts: ZPages): Response {
  const { component: name, now } = facts;
  const startedAt = facts.startedAt();
  const content =
    kind === "Flagz"
      ? { flags: facts.flags() }
      : {
          startTime: timestamp(startedAt.getTime()),
          uptimeSeconds: uptimeSeconds(startedAt, now),
          binaryVersion: facts.version,
          paths,
        };
  const page = { kind, apiVersion: `${group}/${version}`, metadata: { name }, ...content };
  const deprecated = `299 - "${group}/${version} ${kind} is deprecated; use ${group}/${versions[0]}"`;
  return new Response(JSON.stringify(page), {
    headers: { "Content-Type": "application/json", ...(version !== versions[0] && { Warning: deprecated }) },
  });
}

function plain(kind: Kind, facts: ZPages): Response {
  const { component, now } = facts;
  const startedAt = facts.startedAt();
  const seconds = uptimeSeconds(startedAt, now);
  const two = (value: number): string => String(Math.floor(value)).padStart(2, "0");
  const lines =
    kind === "Flagz"
      ? Object.entries(facts.flags()).map(([name, value]) => `${name}=${value}`)
      : [
          `Started: ${startedAt.toUTCString()}`,
          `Up: ${Math.floor(seconds / 3600)} hr ${two((seconds / 60) % 60)} min ${two(seconds % 60)} sec`,
          `Binary version: ${facts.version}`,
          `Paths: ${paths.join(" ")}`,
        ];
  const title = kind === "Flagz" ? "flags" : "statusz";
  const body = `\n${component} ${title}\n${caution}\n\n${lines.join("\n")}\n`;
  return new Response(body, { headers: { "Content-Type": "text/plain; charset=utf-8" } });
}

const uptimeSeconds = (startedAt: Date, now: () => number): number =>
  Math.max(0, Math.floor((now() - startedAt.getTime()) / 1000));
