import { describe, expect, test } from "bun:test";

import { CodedError, messageOf, recurringMessageOf } from "cloud-controller-host/sdk";

const refused = (id: string): CodedError => new CodedError("InvalidRequest", `PUT lb: 400${id}`, { occurrence: id });

describe("the message of an error without what differs each time", () => {
  test.each([
    ["of the error itself", refused(" (ID 1)"), "PUT lb: 400 (ID 1)", "PUT lb: 400"],
    [
      "of its cause",
      new Error("failed", { cause: refused(" (ID 1)") }),
      "failed: PUT lb: 400 (ID 1)",
      "failed: PUT lb: 400",
    ],
    [
      "of two causes",
      new CodedError("X", "failed (try 3)", { occurrence: " (try 3)", cause: refused(" (ID $&)") }),
      "failed (try 3): PUT lb: 400 (ID $&)",
      "failed: PUT lb: 400",
    ],
    ["of an error that has no such part", new Error("no"), "no", "no"],
    ["of a value that is no error", "no", "no", "no"],
  ])("lacks that %s", (_, error, whole, recurring) => {
    expect([messageOf(error), recurringMessageOf(error)]).toEqual([whole, recurring]);
  });
});
