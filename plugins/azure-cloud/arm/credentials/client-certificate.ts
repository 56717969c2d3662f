import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";

import { messageOf } from "cloud-controller-host/sdk";

/** First byte of DER, in which PFX files are written. */
const derSequence = 0x30;

/** Why the content of `aadClientCertPath` cannot be used, and what to do; undefined if it can. */
export function certificateProblem(file: string, content: Buffer, password: string): string | undefined {
  if (content[0] === derSequence)
    return `${file} is a PFX (PKCS #12) file; convert it to PEM with "openssl pkcs12 -in ${file} -nodes -out FILE.pem" (-legacy for old ciphers), name that file and remove aadClientCertPassword`;
  let certificate: X509Certificate;
  let key: KeyObject;
  try {
    certificate = new X509Certificate(content);
  } catch (error) {
    return `${file} has no PEM certificate: ${messageOf(error)}; put the certificate and its private key into it`;
  }
  try {
    key = createPrivateKey({ key: content, format: "pem", ...(password !== "" && { passphrase: password }) });
  } catch {
    const opened = password === "" ? "without a password" : "that aadClientCertPassword opens";
    return `${file} has no private key in PEM ${opened}; put the key beside its certificate`;
  }
  return certificate.checkPrivateKey(key)
    ? undefined
    : `the private key in ${file} does not belong to its first certificate; put the certificate of that key first`;
}
