import { createPrivateKey, X509Certificate } from "node:crypto";
import { access, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createSecureContext } from "node:tls";

import { type Clock, CodedError, type Logger, messageOf } from "cloud-controller-host/sdk";

import { inThread } from "../../async/in-thread.ts";
import { readText } from "../../config/parse/read-text.ts";
import type { KeyPair, KeyType, SelfSignedRequest } from "./self-signed.ts";

/** Source of the serving certificate: flag values, empty when not given. */
export interface CertificateOptions {
  readonly certFile: string;
  readonly keyFile: string;
  readonly certDir: string;
  readonly bindAddress: string;
  /** Base name of the pair in `certDir`. Default `cloud-controller-manager`. */
  readonly pairName?: string;
  /** Start of the names of the flags, for messages. Default `--`. */
  readonly flagPrefix?: "--" | "--webhook-";
  /** Type of the key that is created when no pair exists. Default ECDSA. */
  readonly keyType?: KeyType;
  readonly clock: Clock;
}

export interface CertificateFiles {
  readonly certFile: string;
  readonly keyFile: string;
  /** The flags that named the files, for messages. Default: those of the secure port. */
  readonly flags?: FileFlags;
}

interface FileFlags {
  readonly cert: string;
  readonly key: string;
}

export interface OpenedCertificate {
  readonly pair: KeyPair;
  /** The files to watch; absent for a certificate in memory. */
  readonly files?: CertificateFiles;
}

const flagsOf = (prefix: string): FileFlags => ({
  cert: `${prefix}tls-cert-file`,
  key: `${prefix}tls-private-key-file`,
});

const invalid = (message: string, cause?: unknown): CodedError =>
  new CodedError("InvalidCertificate", message, cause === undefined ? {} : { cause });

/** Loads the given files, or loads or creates the pair in the given directory, or creates one in memory. */
export async function openCertificate(options: CertificateOptions): Promise<OpenedCertificate> {
  const { certFile, keyFile, certDir, pairName = "cloud-controller-manager", flagPrefix = "--" } = options;
  const flags = flagsOf(flagPrefix);
  if (certFile !== "" || keyFile !== "") {
    if (certFile === "" || keyFile === "") throw invalid(`${flags.cert} and ${flags.key} must be given together`);
    return openFiles({ certFile, keyFile, flags });
  }
  if (certDir === "") return { pair: await createSelfSigned(options, flags) };

  const dirFlag = `${flagPrefix}cert-dir`;
  const files = {
    certFile: join(certDir, `${pairName}.crt`),
    keyFile: join(certDir, `${pairName}.key`),
    flags: { cert: dirFlag, key: dirFlag },
  };
  const [hasCert, hasKey] = await Promise.all([readable(files.certFile), readable(files.keyFile)]);
  if (hasCert !== hasKey) {
    const [there, missing] = hasCert ? [files.certFile, files.keyFile] : [files.keyFile, files.certFile];
    throw invalid(`${dirFlag}: ${there} can be read, but ${missing} cannot: give both or neither`);
  }
  if (hasCert) return openFiles(files);
  const pair = await createSelfSigned(options, flags);
  await writePair(certDir, files, pair);
  return { pair, files };
}

const openFiles = async (files: CertificateFiles): Promise<OpenedCertificate> => ({
  pair: await loadPair(files),
  files,
});

/**
 * Creates a pair while the main thread imports the cloud's packages. What the library takes, 0.2 s of processor time and
 * 10 MiB, ends with the thread.
 */
async function createSelfSigned(options: CertificateOptions, flags: FileFlags): Promise<KeyPair> {
  const { bindAddress, keyType, clock } = options;
  const data: SelfSignedRequest = { bindAddress, nowMs: clock.now(), keyType };
  const entry = new URL("./self-signed-thread.ts", import.meta.url);
  try {
    return await inThread({ entry, name: "self-signed", data, limitMs: 60_000 }, clock);
  } catch (error) {
    throw invalid(`a serving certificate cannot be created; give ${flags.cert} and ${flags.key}`, error);
  }
}

/** Reads a pair; throws `InvalidCertificate` naming flag and file when one is unreadable, empty, or does not match. */
export async function loadPair({ certFile, keyFile, flags = flagsOf("--") }: CertificateFiles): Promise<KeyPair> {
  const [certPem, keyPem] = await Promise.all([readPem(flags.cert, certFile), readPem(flags.key, keyFile)]);
  checkPair({ certPem, keyPem }, { certFile, keyFile, flags });
  return { certPem, keyPem };
}

/**
 * Looks at the files every `periodMs` until the signal aborts and reports each pair whose content differs from the
 * last one reported. An unusable pair (half-written, mismatched, deleted) is ignored: the current one stays.
 */
export async function followCertificate(options: {
  readonly files: CertificateFiles;
  readonly current: KeyPair;
  readonly changed: (pair: KeyPair) => void;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
  /** Default 10 s. */
  readonly periodMs?: number;
}): Promise<void> {
  const { files, changed, clock, log, signal, periodMs = 10_000 } = options;
  let { current } = options;
  let lastProblem = "";
  while (true) {
    await clock.sleep(periodMs, signal);
    if (signal.aborted) return;
    try {
      const pair = await loadPair(files);
      lastProblem = "";
      if (pair.certPem === current.certPem && pair.keyPem === current.keyPem) continue;
      changed(pair);
      current = pair;
      log.info("Reloaded serving certificate", { file: files.certFile });
    } catch (error) {
      const problem = messageOf(error);
      if (problem !== lastProblem) log.warn("Failed to reload serving certificate; keeping the current one", { error });
      lastProblem = problem;
    }
  }
}

const readable = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );

async function readPem(flag: string, path: string): Promise<string> {
  const text = await readText(path).catch((error: unknown) => {
    throw invalid(`${flag}: ${path} cannot be read`, error);
  });
  if (text.trim() === "") throw invalid(`${flag}: ${path} is empty`);
  return text;
}

function checkPair({ certPem, keyPem }: KeyPair, { certFile, keyFile, flags }: Required<CertificateFiles>): void {
  const leaf = parse(`${flags.cert}: ${certFile} holds no PEM certificate`, () => new X509Certificate(certPem));
  // The parser's own message may quote its input, which may be a key.
  const key = parse(`${flags.key}: ${keyFile} holds no unencrypted PEM private key`, () => createPrivateKey(keyPem));
  if (!leaf.checkPrivateKey(key))
    throw invalid(`${flags.key}: the key in ${keyFile} does not belong to the certificate in ${certFile}`);
  // The certificates after the first one, too: of a file that is being written the last one may be cut off.
  parse(`${flags.cert}: TLS cannot use the certificates in ${certFile}; one of them is cut off or invalid`, () =>
    createSecureContext({ cert: certPem, key: keyPem }),
  );
}

function parse<T>(problem: string, read: () => T): T {
  try {
    return read();
  } catch {
    throw invalid(problem);
  }
}

async function writePair(directory: string, files: Required<CertificateFiles>, pair: KeyPair): Promise<void> {
  try {
    await mkdir(directory, { recursive: true });
    await writeFile(files.keyFile, pair.keyPem, { mode: 0o600 });
    await writeFile(files.certFile, pair.certPem, { mode: 0o644 });
  } catch (error) {
    throw invalid(`${files.flags.cert}: the generated certificate cannot be written to ${directory}`, error);
  }
}
