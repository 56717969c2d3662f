import { expect, setDefaultTimeout, test } from "bun:test";

import { kinds, type Lease } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { openSandbox } from "../../../host/sandbox-host.ts";
import { allChecks } from "../../../host/sandbox/checks.ts";

setDefaultTimeout(120_000);

const lease = { namespace: "kube-system", name: "cloud-controller-manager" } as const;

test("a changed config counts as swapped in only while the lease has the holder, the transitions and the acquire time of before", async () => {
  await using sandbox = await openSandbox({ nodes: 0, flags: ["--secure-port=0", "--controllers=cloud-node"] });
  const [leads, check] = [allChecks(sandbox)[0], allChecks(sandbox).at(-1)];
  await eventually("it leads", () => leads?.result() !== undefined, 60_000);
  await eventually("it runs", () => sandbox.host.status.running, 60_000);
  await check?.begin?.();
  await eventually("it is swapped in", () => check?.result() !== undefined, 60_000);
  const { spec } = sandbox.api.get(kinds.Lease, lease) ?? {};
  const resultWith = (change: Lease["spec"]): string | undefined => {
    sandbox.api.update(kinds.Lease, lease, (held) => ({ ...held, spec: { ...spec, ...change } }));
    return check?.result();
  };
  expect(resultWith({})).toContain("same lease");
  expect(resultWith({ holderIdentity: "another" })).toBeUndefined();
  expect(resultWith({ leaseTransitions: 9 })).toBeUndefined();
  expect(resultWith({ acquireTime: "2026-01-01T00:00:00.000000Z" })).toBeUndefined();
  expect(resultWith({})).toContain("same lease");
});
