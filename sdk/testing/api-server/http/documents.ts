import { notAcceptable } from "../access/status.ts";
import type { JsonObject } from "../json.ts";
import type { Resource } from "../resource.ts";
import { Discovery } from "./discovery.ts";
import { OpenApi } from "./openapi.ts";
import { jsonReply, textReply } from "./replies.ts";

/** The version reported to clients, whose behavior is implemented. */
const version: JsonObject = {
  major: "1",
  minor: "36",
  gitVersion: "v1.36.3",
  gitCommit: "",
  gitTreeState: "",
  buildDate: "1970-01-01T00:00:00Z",
  goVersion: "",
  compiler: "",
  platform: `linux/${process.arch === "arm64" ? "arm64" : "amd64"}`,
};

const aggregatedType = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/** The discovery documents: version, kinds and schemas. */
export class Documents {
  readonly #discovery: Discovery;
  readonly #openapi: OpenApi;

  constructor(resources: readonly Resource[], host: () => string) {
    this.#discovery = new Discovery(resources, host);
    this.#openapi = new OpenApi(resources);
  }

  /** The reply to a GET; undefined for a path that is not one of a document. */
  answer(path: string, accept: string): Response | undefined {
    if (path === "/version") return jsonReply(version);
    if (path.startsWith("/openapi/v3")) return reply(this.#openapi.document(path.replace(/\/$/, "")));
    if (path === "/openapi/v2") throw notAcceptable(["application/json"]);
    const aggregated = /g=apidiscovery\.k8s\.io;\s*v=v2(;|,|$)/.test(accept) && /^\/apis?\/?$/.test(path);
    const document = this.#discovery.document(path, aggregated);
    if (document === undefined || !aggregated) return reply(document);
    return textReply(`${JSON.stringify(document)}\n`, 200, { "content-type": aggregatedType });
  }
}

const reply = (document: JsonObject | undefined): Response | undefined =>
  document === undefined ? undefined : jsonReply(document);
