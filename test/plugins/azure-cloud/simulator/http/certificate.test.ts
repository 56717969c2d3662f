import { expect, test } from "bun:test";

import { makeCertificate, processCertificate } from "../../../../../plugins/azure-cloud/simulator/http/certificate.ts";

test("the simulators of a process share a certificate, and one that is made for a test is another", async () => {
  const [one, other, own] = await Promise.all([processCertificate(), processCertificate(), makeCertificate()]);
  expect(other).toEqual(one);
  expect(own.ca).not.toBe(one.ca);
});
