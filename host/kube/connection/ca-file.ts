import { X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";

import { CodedError } from "cloud-controller-host/sdk";

import type { CaRead, CredentialObserver } from "./credential-metrics.ts";

/**
 * The file with the CA of an API server. What was good stays while the file is missing, empty or broken, as it may be
 * for a moment when somebody replaces it. upstream: client-go `transport/ca_rotation.go`.
 */
export class CaFile {
  readonly #path: string;
  readonly #observer: CredentialObserver | undefined;
  #pem: string | undefined;

  constructor(path: string, observer: CredentialObserver | undefined) {
    this.#path = path;
    this.#observer = observer;
  }

  /** PEM. Rejects while the file has never been good. */
  async read(): Promise<string> {
    try {
      const pem = await readCa(this.#path);
      if (this.#pem !== undefined) this.#observer?.caRead("success", pem === this.#pem ? "unchanged" : "updated");
      this.#pem = pem;
      return pem;
    } catch (error) {
      if (this.#pem === undefined || !(error instanceof CaFileError)) throw error;
      this.#observer?.caRead("failure", error.reason);
      return this.#pem;
    }
  }
}

type Failure = Extract<CaRead, ["failure", unknown]>[1];

class CaFileError extends CodedError {
  readonly reason: Failure;

  constructor(reason: Failure, message: string, options?: ErrorOptions) {
    super("CaFile", message, options);
    this.reason = reason;
  }
}

async function readCa(path: string): Promise<string> {
  const pem = await readFile(path, "utf8").catch((cause: unknown) => {
    throw new CaFileError("read_error", `cannot read the CA file ${path}`, { cause });
  });
  if (pem.trim() === "") throw new CaFileError("empty", `the CA file ${path} is empty`);
  try {
    // One good certificate at the beginning tells a bundle from a file that is half written or something else.
    void new X509Certificate(pem);
  } catch (cause) {
    throw new CaFileError("ca_parse_error", `the CA file ${path} holds no PEM certificate`, { cause });
  }
  return pem;
}
