import {
  CodedError,
  type Informer,
  type Informers,
  isNotFound,
  kinds,
  type KubeClient,
  messageOf,
  type Secret,
} from "cloud-controller-host/sdk";

import { documentText, notUTF8 } from "../../config/parse/read-text.ts";
import type { ConfigSource } from "./config-source.ts";

export interface SecretSourceOptions {
  readonly client: KubeClient;
  readonly informers: Informers;
  readonly namespace: string;
  readonly name: string;
  /** The key of its data that holds the cloud config. */
  readonly key: string;
}

/**
 * The cloud config in a Secret. That one Secret is watched and no other, so the role needs no more than its name.
 * A resync or a change of another key is only a hint; the content decides. Deletion and re-creation are noticed.
 */
export function secretSource(options: SecretSourceOptions): ConfigSource {
  const { client, informers, namespace, name, key } = options;
  const description = `Secret ${namespace}/${name} (key ${key})`;
  let informer: Informer<Secret> | undefined;

  const current = async (): Promise<Secret | undefined> => {
    if (informer?.hasSynced() === true) return informer.store.get(`${namespace}/${name}`);
    return await client.get(kinds.Secret, { namespace, name }).catch((error: unknown) => {
      if (isNotFound(error)) return undefined;
      throw new CodedError("CloudConfigUnreadable", `${description}: ${messageOf(error)}`, { cause: error });
    });
  };

  const refuse = (problem: string): never => {
    throw new CodedError("CloudConfigUnreadable", `${description}: ${problem}`);
  };

  return {
    description,
    async read() {
      const secret = await current();
      if (secret === undefined)
        return refuse("the Secret does not exist; create it or correct --cloud-config-secret-name");
      const encoded = secret.data?.[key];
      if (encoded === undefined) return refuse("the Secret has no such key; add it or correct --cloud-config-key");
      return documentText(Buffer.from(encoded, "base64")) ?? refuse(`its value ${notUTF8}`);
    },
    watch(hint) {
      informer ??= informers.of(kinds.Secret, { namespace, fieldSelector: `metadata.name=${name}` });
      const registration = informer.handle({ added: hint, updated: hint, deleted: hint });
      return { close: () => registration.remove(), rearm: () => undefined };
    },
  };
}
