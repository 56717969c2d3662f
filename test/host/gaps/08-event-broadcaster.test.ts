import { expect, setDefaultTimeout, test } from "bun:test";

import { kinds } from "cloud-controller-host/sdk";

import { SandboxLab } from "../sandbox-lab.ts";

setDefaultTimeout(120_000);

test("sends and logs an event once after ten reloads, and loses none at shutdown", async () => {
  await using lab = await SandboxLab.open();
  const host = lab.start({ flags: ["--enable-dynamic-reloading"] });
  const { identity } = await host.until("it runs", ({ running }) => running);
  for (let generation = 2; generation <= 11; generation++) {
    await lab.changeConfig();
    await host.until("the next one runs", (status) => status.generation === generation && status.running);
  }
  expect(await host.stop()).toBe(0);
  const reloaded = `generation 11 runs (--cloud-config=${lab.azure.config} changed)`;
  for (const message of [`${identity} became leader`, `${identity} stopped leading`, reloaded]) {
    const logged = host.lines(`message="${message}"`);
    expect(logged).toHaveLength(1);
    expect(logged[0]).toMatch(
      / events\] "Event occurred" object="kube-system\/cloud-controller-manager" kind="Lease" apiVersion="coordination.k8s.io\/v1" .*type="Normal" reason="\w+"/,
    );
  }
  const reported = lab.api.list(kinds.Event);
  const elections = reported.filter(({ reason }) => reason === "LeaderElection");
  expect(elections.map(({ message, count, type }) => ({ message, count, type }))).toEqual([
    { message: `${identity} became leader`, count: 1, type: "Normal" },
    { message: `${identity} stopped leading`, count: 1, type: "Normal" },
  ]);
  for (const { source, reportingComponent, involvedObject } of elections) {
    expect([source?.component, reportingComponent]).toEqual(["cloud-controller-manager", "cloud-controller-manager"]);
    expect(involvedObject.kind).toBe("Lease");
  }
});
