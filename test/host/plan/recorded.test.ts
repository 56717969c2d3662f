import { expect, test } from "bun:test";

import { withoutTimes } from "../../../host/plan/recorded.ts";

test("texts of a planned object that differ with each attempt only are the same", () => {
  const at = (time: string, id: string) => ({
    status: { conditions: [{ message: `refused (correlation ID ${id}); tried again at ${time}`, reason: "Refused" }] },
  });
  const [one, other] = [at("2026-01-01T00:00:00Z", "a-1"), at("2026-01-01T00:05:00.5Z", "b-2")];
  expect(withoutTimes(one)).toEqual(withoutTimes(other));
  expect(withoutTimes(one)).toEqual({
    status: { conditions: [{ message: "refused; tried again at (time)", reason: "Refused" }] },
  });
});

test("a value of a planned object that is a time is shown as it is", () => {
  expect(withoutTimes({ at: "2026-01-01T00:00:00Z" })).toEqual({ at: "2026-01-01T00:00:00Z" });
});
