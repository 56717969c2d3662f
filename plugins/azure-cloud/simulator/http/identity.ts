import { randomBytes } from "node:crypto";

import { ArmFault } from "../faults.ts";

/** The only identity of the simulator. */
export interface SimulatedIdentity {
  readonly clientId: string;
  readonly clientSecret: string;
  /** The service-account token that workload identity presents. */
  readonly federatedToken: string;
}

const lifetimeSeconds = 3600;

const isTokenPath = (path: string): boolean => /\/oauth2\/(v2\.0\/)?token\/?$/u.test(path);

const json = (body: unknown, status = 200): Response => Response.json(body, { status });

const refusal = (code: string, description: string): Response =>
  json(
    { error: code, error_description: description, error_codes: [7000215], correlation_id: crypto.randomUUID() },
    401,
  );

/** A failure of the login service, in the form of OAuth; undefined for another path. */
export function loginFailure(path: string, { status, code, message, headers }: ArmFault): Response | undefined {
  if (!isTokenPath(path)) return undefined;
  return Response.json({ error: code, error_description: message }, { status, headers: { ...headers } });
}

/** Metadata, OpenID discovery and the token endpoint: the part of a login service that the SDKs use. */
export class LoginService {
  #identity: SimulatedIdentity;
  readonly #tokens = new Set<string>();

  constructor(identity: SimulatedIdentity) {
    this.#identity = identity;
  }

  /** Handles a login request; undefined for every other path. */
  async answer(request: Request, url: URL): Promise<Response | undefined> {
    if (url.pathname === "/metadata/endpoints") return json(endpoints(url.origin));
    if (url.pathname.endsWith("/discovery/instance")) return json(instanceDiscovery(url));
    if (url.pathname.endsWith("/.well-known/openid-configuration")) return json(openIdConfiguration(url));
    if (request.method === "POST" && isTokenPath(url.pathname))
      return this.#token(new URLSearchParams(await request.text()));
    return undefined;
  }

  /** Accepts another secret from now on, and neither the former one nor what was issued for it. */
  rotateSecret(clientSecret: string): void {
    this.#identity = { ...this.#identity, clientSecret };
    this.revokeTokens();
  }

  /** Makes every token that was issued so far invalid, although it has not expired. */
  revokeTokens(): void {
    this.#tokens.clear();
  }

  /** Refuses a request without a token that was issued here. */
  checkBearer(authorization: string | null, origin: string): void {
    const token = authorization?.replace(/^Bearer /iu, "");
    if (token !== undefined && this.#tokens.has(token)) return;
    throw new ArmFault(401, "InvalidAuthenticationToken", "The access token is missing or invalid.", {
      "www-authenticate": `Bearer authorization_uri="${origin}/adfs", error="invalid_token"`,
    });
  }

  #token(form: URLSearchParams): Response {
    const { clientId, clientSecret, federatedToken } = this.#identity;
    if (form.get("grant_type") !== "client_credentials")
      return json({ error: "unsupported_grant_type", error_description: "AADSTS70003: unsupported grant" }, 400);
    if (form.get("client_id") !== clientId)
      return refusal("unauthorized_client", "AADSTS700016: Application was not found in the directory.");
    const assertion = form.get("client_assertion");
    if (assertion !== null && assertion !== federatedToken)
      return refusal("invalid_client", "AADSTS70021: No matching federated identity record found.");
    if (assertion === null && form.get("client_secret") !== clientSecret)
      return refusal("invalid_client", "AADSTS7000215: Invalid client secret provided.");
    const token = `sim.${randomBytes(24).toString("hex")}`;
    this.#tokens.add(token);
    return json({
      token_type: "Bearer",
      expires_in: lifetimeSeconds,
      ext_expires_in: lifetimeSeconds,
      access_token: token,
    });
  }
}

const endpoints = (origin: string): readonly unknown[] =>
  ["AzurePublicCloud", "AzureCloud", "AzureStackCloud"].map((name) => ({
    name,
    resourceManager: `${origin}/`,
    authentication: {
      loginEndpoint: `${origin}/`,
      audiences: [`${origin}/`],
      tenant: "adfs",
      identityProvider: "ADFS",
    },
    suffixes: { storage: "storage.invalid", acrLoginServer: "azurecr.invalid" },
  }));

const instanceDiscovery = (url: URL): unknown => ({
  tenant_discovery_endpoint: `${url.origin}/adfs/.well-known/openid-configuration`,
  "api-version": "1.1",
  metadata: [{ preferred_network: url.host, preferred_cache: url.host, aliases: [url.host] }],
});

function openIdConfiguration(url: URL): unknown {
  const authority = url.href.slice(0, url.href.indexOf("/.well-known"));
  const base = authority.replace(/\/v2\.0$/u, "");
  const oauth = authority === base ? `${base}/oauth2` : `${base}/oauth2/v2.0`;
  return {
    issuer: authority,
    authorization_endpoint: `${oauth}/authorize`,
    token_endpoint: `${oauth}/token`,
    jwks_uri: `${base}/discovery/keys`,
    response_types_supported: ["code", "id_token"],
    subject_types_supported: ["pairwise"],
    id_token_signing_alg_values_supported: ["RS256"],
  };
}
