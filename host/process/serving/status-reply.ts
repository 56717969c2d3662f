/** Replies as the API server's `Status` object. Source: apiserver `endpoints/handlers/responsewriters`. */

interface StatusFields {
  readonly code: number;
  readonly reason: string;
  readonly message: string;
  readonly details?: object;
}

export const unauthorized = (request: Request): Promise<Response> =>
  statusReply(request, { code: 401, reason: "Unauthorized", message: "Unauthorized" });

/** `what` follows the user name in the message. */
export const forbidden = (request: Request, user: string, what: string, reason: string): Promise<Response> => {
  const sentence = escapeHtml(`User ${JSON.stringify(user)} ${what}`);
  const message = `forbidden: ${sentence}${reason === "" ? "" : `: ${reason}`}`;
  return statusReply(request, { code: 403, reason: "Forbidden", message, details: {} });
};

/** For a failed review. */
export function undecided(uri: string, reason: string): Response {
  return new Response(`Internal Server Error: ${JSON.stringify(escapeHtml(uri))}: ${reason}\n`, {
    status: 500,
    headers: { "Content-Type": "text/plain; charset=utf-8", ...noSniff },
  });
}

const noSniff = { "X-Content-Type-Options": "nosniff" };

const escapeHtml = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

async function statusReply(request: Request, { code, reason, message, details }: StatusFields): Promise<Response> {
  const status = {
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Failure",
    message,
    reason,
    ...(details && { details }),
    code,
  };
  if (wantsYaml(request)) {
    const { stringify } = await import("yaml");
    return reply(code, stringify(status), "application/yaml");
  }
  return reply(code, `${JSON.stringify(status, undefined, wantsPretty(request) ? 2 : 0)}\n`, "application/json");
}

const reply = (status: number, body: string, contentType: string): Response =>
  new Response(body, { status, headers: { "Content-Type": contentType, ...noSniff } });

/** The first supported type wins; the default is JSON. */
function wantsYaml(request: Request): boolean {
  const types = (request.headers.get("accept") ?? "").split(",").map((range) => range.split(";")[0]?.trim());
  const known = types.find((type) => type === "application/json" || type === "application/yaml" || type === "*/*");
  return known === "application/yaml";
}

/** Indented for browsers and command-line tools. */
function wantsPretty(request: Request): boolean {
  const asked = new URL(request.url).searchParams.get("pretty");
  if (asked !== null) return ["", "1", "t", "true"].includes(asked.toLowerCase());
  return /^(curl|Wget|Mozilla\/5\.0)/.test(request.headers.get("user-agent") ?? "");
}
