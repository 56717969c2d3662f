import { X509Certificate } from "node:crypto";

import type { Clock, Logger } from "cloud-controller-host/sdk";

import { type CertificateFiles, followCertificate, loadPair } from "./certificates.ts";
import type { KeyPair } from "./self-signed.ts";

/** One `--tls-sni-cert-key`: a pair of files and its host names; empty means the names in the certificate. */
export interface NamedCertificateFiles extends CertificateFiles {
  readonly names: readonly string[];
}

/** Serving certificates by host name. Source: apiserver `dynamiccertificates/named_certificates.go`. */
export interface NamedCertificates {
  /** The pair for the name that a client requests: the exact name first, then a wildcard for its first label. */
  byServerName(name: string): KeyPair | undefined;
  /** Reloads the files until the signal aborts. */
  run(signal: AbortSignal): Promise<void>;
}

interface Named {
  readonly files: NamedCertificateFiles;
  readonly names: readonly string[];
  readonly pair: KeyPair;
}

/** Loads every pair; rejects, naming flag and file, when one is invalid. */
export async function openNamedCertificates(
  entries: readonly NamedCertificateFiles[],
  {
    clock,
    log,
    flag = "--tls-sni-cert-key",
  }: {
    readonly clock: Clock;
    readonly log: Logger;
    readonly flag?: "--tls-sni-cert-key" | "--webhook-tls-sni-cert-key";
  },
): Promise<NamedCertificates> {
  const flags = { cert: flag, key: flag };
  const loaded = entries.map(async (entry) => {
    const files = { ...entry, flags };
    return named(files, await loadPair(files));
  });
  const all = await Promise.all(loaded);
  let byName = tableOf(all);
  const follow = (index: number, { files, pair }: Named, signal: AbortSignal): Promise<void> =>
    followCertificate({
      files,
      current: pair,
      clock,
      log,
      signal,
      changed(next) {
        all[index] = named(files, next);
        byName = tableOf(all);
      },
    });
  return {
    byServerName(name) {
      const asked = name.toLowerCase();
      return byName.get(asked) ?? byName.get(asked.replace(/^[^.]+/, "*"));
    },
    async run(signal) {
      await Promise.all(all.map((one, index) => follow(index, one, signal)));
    },
  };
}

const named = (files: NamedCertificateFiles, pair: KeyPair): Named => ({
  files,
  pair,
  names: files.names.length > 0 ? files.names : namesIn(pair),
});

/** Names from flags override names in certificates; of equal names, the first wins. */
function tableOf(all: readonly Named[]): ReadonlyMap<string, KeyPair> {
  const table = new Map<string, KeyPair>();
  const given = all.filter(({ files }) => files.names.length > 0);
  for (const { names, pair } of [...given, ...all])
    for (const name of names) if (!table.has(name.toLowerCase())) table.set(name.toLowerCase(), pair);
  return table;
}

/** DNS names, or the common name of a certificate without any. */
function namesIn({ certPem }: KeyPair): readonly string[] {
  const { subjectAltName = "", subject } = new X509Certificate(certPem);
  const names = [...subjectAltName.matchAll(/DNS:([^,\s]+)/g)].map(([, name = ""]) => name);
  return names.length > 0 ? names : [...subject.matchAll(/^CN=(.+)$/gm)].map(([, name = ""]) => name);
}
