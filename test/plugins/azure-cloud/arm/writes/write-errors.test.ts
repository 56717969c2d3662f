import { describe, expect, test } from "bun:test";

import { CodedError, RetryAfterError } from "cloud-controller-host/sdk";

import { ArmError, isAbsent } from "../../../../../plugins/azure-cloud/arm/errors.ts";
import {
  isConflicting,
  isLost,
  isRefused,
  isRejected,
  OutdatedError,
  retryConflicts,
} from "../../../../../plugins/azure-cloud/arm/writes/write-errors.ts";
import { errorOf } from "../../../../kit/rejection.ts";

const failed = { failedOperation: true };

describe("a failed write", () => {
  for (const [status, code, options = {}] of [
    [412, "Anything"],
    [412, "PreconditionFailed"],
    [400, "PreconditionFailed"],
    [409, "Anything"],
    [409, "AnotherOperationInProgress"],
    [429, "AnotherOperationInProgress"],
    [429, "OperationPreempted"],
    [429, "RetryableErrorDueToAnotherOperation"],
    [400, "RetryableError"],
    [200, "Canceled", failed],
    [200, "CanceledAndSupersededDueToAnotherOperation", failed],
    [200, "OperationPreempted", failed],
  ] as const)
    test(`a failed write with ${status} ${code} is planned again from the current state`, () => {
      const error = new ArmError(status, code, "refused", options);
      expect([isConflicting(error), isRejected(error)]).toEqual([true, false]);
    });

  test("a write whose last read does not find the resource yet is planned again from the current state", () => {
    const error = new ArmError(404, "ResourceNotFound", "not found", { method: "GET" });
    expect([isConflicting(error), isRejected(error), isRefused(error)]).toEqual([true, false, false]);
  });

  test("a failed write whose message reports a superseding operation is planned again from the current state", () => {
    const error = new ArmError(400, "Failed", "Operation was CanceledAndSupersededDueToAnotherOperation.");
    expect([isConflicting(error), isRejected(error)]).toEqual([true, false]);
  });

  for (const [status, code, options = {}] of [
    [400, "InvalidRequestFormat"],
    [404, "ResourceGroupNotFound"],
    [409, "MissingSubscriptionRegistration"],
    [409, "OperationNotAllowed"],
    [409, "ResourceGroupBeingDeleted"],
    [499, "Anything"],
    [403, "LinkedAuthorizationFailed"],
    [403, "LinkedInvalidPropertyId"],
    [403, "RequestDisallowedByPolicy"],
    [200, "PublicIPCountLimitReached", failed],
  ] as const)
    test(`a failed write with ${status} ${code} would fail again unchanged`, () => {
      const error = new ArmError(status, code, "refused", options);
      expect([isConflicting(error), isRejected(error)]).toEqual([false, true]);
    });

  for (const [status, code, options = {}] of [
    [400, "LoadBalancerInUseByVirtualMachineScaleSet"],
    [400, "PublicIPAddressCannotBeDeleted"],
    [400, "ReferencedResourceNotProvisioned"],
    [409, "ReadOnlyDisabledSubscription"],
    [409, "ScopeLocked"],
    [401, "ExpiredAuthenticationToken"],
    [403, "AuthorizationFailed"],
    [408, "RequestTimeout"],
    [429, "TooManyRequests"],
    [500, "InternalServerError"],
    [503, "ServerBusy"],
    ...[
      "InternalServerError",
      "InternalError",
      "InternalExecutionError",
      "OperationTimedOut",
      "ServerBusy",
      "ServerUnavailable",
      "TooManyRequests",
    ].map((one) => [200, one, failed] as const),
  ] as const)
    test(`a failed write with ${status} ${code}${options === failed ? " of its operation" : ""} may succeed unchanged`, () => {
      const error = new ArmError(status, code, "refused", options);
      expect([isConflicting(error), isRejected(error)]).toEqual([false, false]);
    });

  test("a failed write that ARM has not answered is neither a conflict nor rejected", () => {
    expect([isConflicting(new Error("412")), isRejected(new Error("400"))]).toEqual([false, false]);
  });
});

describe("a reply", () => {
  for (const [status, code, message, absent] of [
    [404, "ResourceNotFound", "", true],
    [404, "ParentResourceNotFound", "", true],
    [404, "Http404", "", false],
    [404, "SubscriptionNotFound", "", false],
    [404, "InvalidSubscriptionId", "", false],
    [404, "InvalidResourceType", "", false],
    [404, "InvalidResourceNamespace", "", false],
    [404, "NoRegisteredProviderFound", "", false],
    [
      400,
      "InvalidParameter",
      "The provided instanceId 7 is not an active Virtual Machine Scale Set VM instanceId.",
      true,
    ],
    [400, "InvalidParameter", "", false],
    [403, "ResourceNotFound", "", false],
  ] as const)
    test(`a reply with ${status} ${code} ${message}${absent ? "proves" : "does not prove"} that the resource does not exist`, () => {
      expect(isAbsent(new ArmError(status, code, message))).toBe(absent);
    });
});

describe("a conflict", () => {
  const conflict = new ArmError(412, "PreconditionFailed", "changed");

  async function attempts(errors: readonly unknown[], signal = new AbortController().signal) {
    const pauses: number[] = [];
    const fresh: boolean[] = [];
    const clock = {
      now: Date.now,
      monotonic: () => performance.now(),
      sleep: (ms: number) => Promise.resolve(void pauses.push(ms)),
    };
    const error = await errorOf(
      retryConflicts({ clock, signal }, (isFresh) => {
        fresh.push(isFresh);
        const thrown = errors[fresh.length - 1];
        return thrown === undefined ? Promise.resolve() : Promise.reject(thrown);
      }),
    );
    return { error, pauses, fresh };
  }

  test("is resolved by fresh reads, after growing pauses", async () => {
    const { error, pauses, fresh } = await attempts([conflict, conflict, conflict]);
    expect(error).toBeUndefined();
    expect(fresh).toEqual([false, true, true, true]);
    for (const [index, longestMs] of [150, 300, 600].entries()) {
      expect(pauses[index]).toBeLessThanOrEqual(longestMs);
      expect(pauses[index]).toBeGreaterThanOrEqual(longestMs / 3);
    }
  });

  test("is reported after five attempts, and another error at once", async () => {
    expect(await attempts(Array.from({ length: 9 }, () => conflict))).toMatchObject({
      error: conflict,
      fresh: { length: 5 },
    });
    const other = new Error("no network");
    expect(await attempts([other])).toMatchObject({ error: other, fresh: [false] });
  });

  test("is not repeated once the signal has aborted", async () => {
    const stop = new AbortController();
    stop.abort(new Error("stopping"));
    expect(await attempts([conflict], stop.signal)).toMatchObject({ error: stop.signal.reason, fresh: [] });
  });
});

test("a write has changed nothing if ARM refused its request for another reason than a conflict, or if it was not sent", () => {
  const errors = [
    new ArmError(400, "InvalidRequest", "", { method: "PUT" }),
    new ArmError(412, "PreconditionFailed", "", { method: "PUT" }),
    new ArmError(409, "AnotherOperationInProgress", "", { method: "PUT" }),
    new ArmError(409, "ScopeLocked", "", { method: "PUT" }),
    new ArmError(408, "RequestTimeout", "", { method: "PUT" }),
    new OutdatedError("has changed"),
    new ArmError(500, "InternalServerError", "", { method: "PUT" }),
    new ArmError(200, "Failed", "", failed),
    // Its operation, or the resource itself, read afterward.
    new ArmError(404, "ResourceNotFound", "", { method: "GET" }),
    new Error("the connection broke"),
  ];
  expect(errors.map(isRefused)).toEqual([true, false, false, true, false, true, false, false, false, false]);
});

test("what has become of a write is unknown without a reply, after one of a gateway or of a service that fails, and when its operation takes too long", () => {
  const errors = [
    new CodedError("OperationTimeout", "the operation did not end"),
    new CodedError("Unreachable", "the connection broke"),
    new CodedError("InvalidReply", "a page of a proxy"),
    new ArmError(503, "ServiceUnavailable", "", { method: "PUT" }),
    new ArmError(408, "RequestTimeout", "", { method: "PUT" }),
    // Of its poll.
    new ArmError(502, "BadGateway", "", { method: "GET" }),
    new ArmError(200, "Failed", "", failed),
    new ArmError(500, "InternalServerError", "", failed),
    new ArmError(403, "AuthorizationFailed", "", { method: "PUT" }),
    new RetryAfterError(1_000, "throttled, and not sent"),
  ];
  expect(errors.map(isLost)).toEqual([true, true, true, true, true, true, false, false, false, false]);
});
