import { expect, test } from "bun:test";

import { cloudConformance, type CloudHarness } from "cloud-controller-host/sdk/testing";

import { memoryCloudHarness } from "../../kit/conformance.ts";

const harness: CloudHarness = memoryCloudHarness();

test("a skipped conformance test carries its reason, and the others do not", () => {
  const suite = cloudConformance(harness, { skip: { "metadata is stable": "the backend is random" } });
  expect(suite.filter(({ skip }) => skip !== undefined)).toMatchObject([
    { name: "metadata is stable", skip: "the backend is random" },
  ]);
});

test.each([
  ["an unknown test", { "no such test": "because" }, 'unknown test "no such test"; the tests are create and reads'],
  ["a missing reason", { "metadata is stable": " " }, 'give a reason for "metadata is stable"'],
])("the skip list rejects %s", (_, skip, problem) => {
  expect(() => cloudConformance(harness, { skip })).toThrow(problem);
});
