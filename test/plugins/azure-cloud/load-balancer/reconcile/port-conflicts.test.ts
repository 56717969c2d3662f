import { describe, expect, test } from "bun:test";

import { CodedError, keyOf, RefusedError, type Service } from "cloud-controller-host/sdk";

import { PortConflicts } from "../../../../../plugins/azure-cloud/load-balancer/reconcile/port-conflicts.ts";
import type { Reconciled } from "../../../../../plugins/azure-cloud/load-balancer/reconcile/wanted.ts";
import { errorOf } from "../../../../kit/rejection.ts";
import { serviceOf } from "../cluster.ts";

const done: Reconciled = { status: undefined, writes: 0 };
const conflict = new RefusedError("PortConflict", "port 80/TCP is taken");

function attempts() {
  const conflicts = new PortConflicts();
  const joined: string[] = [];
  const names = (services: readonly Service[]): void => void joined.push(services.map(keyOf).join());
  return {
    conflicts,
    joined,
    /** Submits a Service with these outcomes, one per submission. */
    submit: async (name: string, ...outcomes: readonly (Error | undefined)[]): Promise<unknown> => {
      const left = [...outcomes];
      const submit = (): Promise<Reconciled> => {
        const error = left.shift();
        return error === undefined ? Promise.resolve(done) : Promise.reject(error);
      };
      const error = await errorOf(conflicts.submit(serviceOf(name), submit, names));
      expect(left).toEqual([]);
      return error;
    },
  };
}

describe("a Service that is refused for a port of another one", () => {
  test("is submitted once more, together with those that were refused as well", async () => {
    const { submit, joined } = attempts();
    expect(await submit("a", conflict)).toBe(conflict);
    expect(await submit("b", conflict, undefined)).toBeUndefined();
    expect(joined).toEqual(["default/a"]);
  });

  test("fails if it is refused again, and is submitted together with the next one", async () => {
    const { submit, joined } = attempts();
    await submit("a", conflict);
    expect(await submit("b", conflict, conflict)).toBe(conflict);
    await submit("c", conflict, conflict);
    expect(joined).toEqual(["default/a", "default/a,default/b"]);
  });

  test("is not submitted with others once it has succeeded, has failed otherwise, or is gone", async () => {
    const { submit, joined, conflicts } = attempts();
    await submit("a", conflict);
    await submit("a", undefined);
    await submit("b", conflict);
    await submit("b", new RefusedError("PublicIPNotFound", "it is gone"));
    await submit("c", conflict);
    conflicts.forget(serviceOf("c"));
    await submit("d", conflict);
    await submit("e", conflict, undefined);
    await submit("f", conflict, undefined);
    expect(joined).toEqual(["default/d", "default/d"]);
  });

  test("is submitted with 16 others at most, those that were refused last", async () => {
    const { submit, joined } = attempts();
    await submit("first", conflict);
    for (let index = 0; index < 20; index += 1) await submit(`s${index}`, conflict, conflict);
    const others = joined.at(-1)?.split(",");
    expect(others).toHaveLength(16);
    expect(others?.at(-1)).toBe("default/s18");
  });

  test("is submitted once where it fails otherwise", async () => {
    const { submit, joined } = attempts();
    await submit("a", conflict);
    const other = new CodedError("PortConflict", "not a refusal");
    expect(await submit("b", other)).toBe(other);
    expect(joined).toEqual([]);
  });
});
