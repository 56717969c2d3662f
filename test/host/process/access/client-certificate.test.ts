import { expect, test } from "bun:test";

import { createBundleCheck, parseBundle } from "../../../../host/process/access/client-certificate.ts";
import { createCertificateAuthority } from "../../../envtest/certificate-authority.ts";
import { processorMs } from "../../../kit/processor-time.ts";

test("a bundle of more than a thousand certificates is refused before any is parsed, which would block the event loop", async () => {
  const { certPem } = await createCertificateAuthority("a");
  expect(parseBundle(certPem.repeat(3), "the file")).toHaveLength(3);
  const large = certPem.repeat(40_000);
  const refuse = () => expect(() => parseBundle(large, "the file")).toThrow("the file has more than 1000 certificates");
  expect(processorMs(refuse)).toBeLessThan(3_000);
});

test("a bundle that has changed is checked again, each origin by itself", async () => {
  const { certPem } = await createCertificateAuthority("a");
  const check = createBundleCheck();
  for (const origin of ["one", "one", "other"]) check(certPem, origin);
  for (const origin of ["one", "other"]) expect(() => check("no certificate", origin)).toThrow(origin);
});
