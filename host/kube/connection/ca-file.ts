import { X509Certificate } from "node:crypto";

import { CodedError } from "cloud-controller-host/sdk";

import { readText } from "../../config/parse/read-text.ts";
import type { CaRead, CredentialObserver } from "./credential-metrics.ts";

/**
 * The CA file of an API server. The last valid content stays in use while the file is missing, empty or invalid, as it
 * may be for a moment while it is replaced. upstream: client-go `transport/ca_rotation.go`.
 */
export class CaFile {
  readonly #path: string;
  readonly #observer: CredentialObserver | undefined;
  #pem: string | undefined;

  constructor(path: string, observer: CredentialObserver | undefined) {
    this.#path = path;
    this.#observer = observer;
  }

  /** PEM. Rejects until the file has been valid once. */
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
    super("CAFile", message, options);
    this.reason = reason;
  }
}

async function readCa(path: string): Promise<string> {
  const pem = await readText(path).catch((cause: unknown) => {
    throw new CaFileError("read_error", `cannot read the CA file ${path}`, { cause });
  });
  if (pem.trim() === "") throw new CaFileError("empty", `the CA file ${path} is empty`);
  try {
    // One valid certificate at the beginning distinguishes a bundle from a partly written or unrelated file.
    void new X509Certificate(pem);
  } catch (cause) {
    throw new CaFileError("ca_parse_error", `the CA file ${path} holds no PEM certificate`, { cause });
  }
  return pem;
}
