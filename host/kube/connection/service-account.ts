import {
  type Clock,
  CodedError,
  isAlreadyExists,
  isNotFound,
  isObject,
  kinds,
  type Logger,
  messageOf,
} from "cloud-controller-host/sdk";

import { createClient } from "./client.ts";
import type { ApiServer, Credentials } from "./credentials.ts";
import type { Transport } from "./transport.ts";
import { documentOf, pathOf, textAt } from "./wire.ts";

export interface ServiceAccountOptions {
  readonly namespace: string;
  readonly name: string;
  /** Requests tokens with the credentials of this process. */
  readonly transport: Transport;
  readonly clock: Clock;
  readonly log: Logger;
}

/** A token and its times in milliseconds of the monotonic clock; the server's clock is never compared with it. */
interface Token {
  readonly token: string;
  readonly renewAt: number;
  readonly expiresAt: number;
}

const lifeSeconds = 3600;
/** The API server issues no shorter-lived token; a shorter lifetime means that the clocks differ. */
const shortestLifeMs = 600_000;
const renewedAt = 0.8;
const tries = 4;
const firstPauseMs = 500;
/** Pause after a failed renewal, while the old token is still valid. */
const renewPauseMs = 30_000;

/**
 * The API server with the credentials of a service account: address and CA of `root`, and a token of the account
 * instead of all other credentials. A missing account is created. A token is renewed after 80 % of its lifetime, or
 * when it is rejected. upstream: controller-manager `pkg/clientbuilder/client_builder_dynamic.go`.
 */
export function serviceAccountApi(root: ApiServer, options: ServiceAccountOptions): ApiServer {
  const tokens = new ServiceAccountTokens(options);
  let known: { readonly token: string; readonly from: Credentials; readonly credentials: Credentials } | undefined;
  return {
    url: root.url,
    proxy: root.proxy,
    async credentials({ rejected } = {}) {
      const turnedDown = rejected !== undefined && rejected === known?.credentials ? known.token : undefined;
      const token = await tokens.get(turnedDown);
      const from = await root.credentials();
      if (known?.token !== token || known.from !== from) known = { token, from, credentials: bearer(token, from) };
      return known.credentials;
    },
  };
}

function bearer(token: string, { tls }: Credentials): Credentials {
  const { cert: _cert, key: _key, ...server } = tls;
  return { tls: server, headers: { Authorization: `Bearer ${token}` } };
}

class ServiceAccountTokens {
  readonly #options: ServiceAccountOptions;
  #token: Token | undefined;
  #fetching: Promise<Token> | undefined;

  constructor(options: ServiceAccountOptions) {
    this.#options = options;
  }

  /** The current token, never the rejected one. Rejects with a `CodedError` if no token can be requested. */
  async get(turnedDown: string | undefined): Promise<string> {
    const { clock, log } = this.#options;
    const token = this.#token?.token === turnedDown ? undefined : this.#token;
    const now = clock.monotonic();
    if (token !== undefined && now < token.renewAt) return token.token;
    this.#fetching ??= this.#fetch().finally(() => (this.#fetching = undefined));
    try {
      this.#token = await this.#fetching;
      return this.#token.token;
    } catch (error) {
      if (token === undefined || now >= token.expiresAt) throw error;
      log.warn("Failed to renew a service account token; keeping the current one", { error });
      this.#token = { ...token, renewAt: Math.min(now + renewPauseMs, token.expiresAt) };
      return token.token;
    }
  }

  async #fetch(): Promise<Token> {
    const { clock, namespace, name } = this.#options;
    for (let tried = 1; ; tried++)
      try {
        await this.#ensureAccount();
        return await this.#request();
      } catch (error) {
        if (tried < tries) await clock.sleep(firstPauseMs * 2 ** (tried - 1));
        else
          throw new CodedError(
            "ServiceAccount",
            `--use-service-account-credentials: no token for the service account ${namespace}/${name}: ${messageOf(error)}`,
            { cause: error },
          );
      }
  }

  async #ensureAccount(): Promise<void> {
    const { transport, namespace, name, log } = this.#options;
    const client = createClient(transport);
    try {
      await client.get(kinds.ServiceAccount, { namespace, name });
    } catch (error) {
      if (!isNotFound(error)) throw error;
      try {
        await client.create(kinds.ServiceAccount, { metadata: { namespace, name } });
        log.info("Created service account", { serviceAccount: `${namespace}/${name}` });
      } catch (lost) {
        if (!isAlreadyExists(lost)) throw lost;
      }
    }
  }

  async #request(): Promise<Token> {
    const { transport, clock, namespace, name } = this.#options;
    const asked = clock.monotonic();
    const response = await transport.send({
      method: "POST",
      path: pathOf(kinds.ServiceAccount, { namespace, name, subresource: "token" }),
      body: {
        apiVersion: "authentication.k8s.io/v1",
        kind: "TokenRequest",
        spec: { expirationSeconds: lifeSeconds },
      },
    });
    const reply = await documentOf(response);
    const status = isObject(reply) && isObject(reply["status"]) ? reply["status"] : {};
    const token = textAt(status, "token");
    const life = Date.parse(textAt(status, "expirationTimestamp")) - clock.now();
    if (token === "" || Number.isNaN(life))
      throw new CodedError("UnexpectedReply", "the API server's reply to a TokenRequest contains no token");
    const lifeMs = Math.max(life, shortestLifeMs);
    return { token, renewAt: asked + renewedAt * lifeMs, expiresAt: asked + lifeMs };
  }
}
