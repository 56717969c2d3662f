import { describe, expect, test } from "bun:test";

import { type AdmissionRequest, type AdmissionResponse, defineWebhook } from "cloud-controller-host/sdk";
import { type WebhookCase, webhookConformance } from "cloud-controller-host/sdk/testing";

import { errorOf } from "../../kit/rejection.ts";

const rules = [{ apiGroups: [""], apiVersions: ["v1"], resources: ["pods"], operations: ["CREATE"] }] as const;
const cases: readonly WebhookCase[] = [
  { name: "a pod", object: { kind: "Pod", metadata: { name: "web" } }, allowed: true },
  { name: "a pod without a name", object: { kind: "Pod", metadata: {} }, allowed: false },
];

/** Names of the tests of the suite that a webhook with this decision fails. */
async function failedBy(
  admit: (request: AdmissionRequest) => AdmissionResponse,
  type: "validating" | "mutating" = "validating",
): Promise<readonly string[]> {
  const plugin = defineWebhook({ name: "names", path: "/names", type, rules, admit: (request) => admit(request) });
  const failed: string[] = [];
  for (const { name, run } of webhookConformance(plugin, { cases }))
    if ((await errorOf(Promise.resolve(run()))) !== undefined) failed.push(name);
  return failed;
}

const decide = ({ name }: AdmissionRequest): AdmissionResponse =>
  name === "" ? { allowed: false, message: "a pod needs a name" } : { allowed: true };

describe("the suite for webhooks", () => {
  test("accepts a webhook that decides as expected", async () => {
    expect(await failedBy(decide)).toEqual([]);
  });

  test("finds a webhook that decides otherwise than expected", async () => {
    const denying = (): AdmissionResponse => ({ allowed: false, message: "no pods" });
    expect(await failedBy(denying)).toEqual(["a pod"]);
  });

  test("finds a denial without a message", async () => {
    expect(await failedBy((request) => ({ allowed: decide(request).allowed }))).toEqual(["a denial has a message"]);
  });

  test("finds a webhook that decides differently the second time", async () => {
    let count = 0;
    const counting = (request: AdmissionRequest): AdmissionResponse => ({
      ...decide(request),
      message: `decision ${(count += 1)}`,
    });
    expect(await failedBy(counting)).toEqual(["the decision is stable and does not modify the request"]);
  });

  test("finds a patch of a webhook that is not a mutating one", async () => {
    const patching = (request: AdmissionRequest): AdmissionResponse => ({ ...decide(request), patch: [] });
    expect(await failedBy(patching)).toEqual(["only a mutating webhook returns a patch"]);
    expect(await failedBy(patching, "mutating")).toEqual([]);
  });
});
