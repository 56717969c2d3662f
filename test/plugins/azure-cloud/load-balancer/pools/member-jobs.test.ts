import { expect, test } from "bun:test";

import {
  addEdit,
  familiesOf,
  type Job,
  joining,
  leaving,
  type MembersWrite,
} from "../../../../../plugins/azure-cloud/load-balancer/pools/member-jobs.ts";

const scope = "/subscriptions/sub0/resourceGroups/rg0/providers";
const balancer = `${scope}/Microsoft.Network/loadBalancers/kubernetes`;
const instance = `${scope}/Microsoft.Compute/virtualMachineScaleSets/vmss0/virtualMachines/0`;
const writeOf = (name: string): MembersWrite => ({
  kind: "update-members",
  id: `${balancer}/backendAddressPools/${name}`,
  resourceGroup: "rg0",
  name,
  loadBalancer: "kubernetes",
  services: [],
  family: "IPv4",
  join: [],
  leave: [],
});

test("an instance is one job for the writes of several pools, however its id is spelled", () => {
  const jobs = new Map<string, Job>();
  const writes = [writeOf("kubernetes"), writeOf("kubernetes-IPv6")];
  for (const [index, write] of writes.entries())
    addEdit(jobs, write, {
      id: index === 0 ? instance : instance.toUpperCase(),
      kind: "instance",
      edit: joining(write.id),
    });
  const [job, ...others] = jobs.values();
  expect(others).toEqual([]);
  expect(job?.edits.map(({ family }) => family)).toEqual(["IPv4", "IPv6"]);
  expect([...(job?.reasons ?? [])]).toEqual(writes);
});

test("a member leaves with the instance or the network interface that it is of, and nothing leaves with another one", () => {
  const edit = { ...joining(balancer), change: "leave" } as const;
  const ownersOf = (id: string) => [...leaving(id, edit)].map(({ kind, id: owner }) => `${kind} ${owner}`);
  const nic = `${scope}/Microsoft.Network/networkInterfaces/nic0`;
  expect(ownersOf(`${instance}/networkInterfaces/nic0/ipConfigurations/one`)).toEqual([`instance ${instance}`]);
  expect(ownersOf(`${nic}/ipConfigurations/one`)).toEqual([`interface ${nic}`]);
  expect(ownersOf(`${scope}/Microsoft.Network/bastionHosts/one/ipConfigurations/one`)).toEqual([]);
});

test("a job for the pools of both families is one for those of each, and one that releases a load balancer stays one", () => {
  const jobs = new Map<string, Job>();
  const updates = ["kubernetes", "kubernetes-IPv6"].map(writeOf);
  const poolIds = updates.map(({ id }) => id);
  const release: MembersWrite = { ...writeOf("kubernetes"), kind: "release-pools", id: balancer, poolIds };
  for (const write of updates) addEdit(jobs, write, { id: instance, kind: "instance", edit: joining(write.id) });
  for (const poolId of poolIds)
    addEdit(jobs, release, {
      id: `${instance}1`,
      kind: "instance",
      edit: { ...joining(poolId.toUpperCase()), change: "leave" },
    });
  const parts = [...jobs.values()].map((job) => familiesOf(job));
  expect(parts.map((part) => part.map(({ edits }) => edits.map(({ family }) => family)))).toEqual([
    [["IPv4"], ["IPv6"]],
    [["IPv4", "IPv6"]],
  ]);
  expect(parts.flat().map(({ reasons }) => [...reasons])).toEqual([...updates.map((one) => [one]), [release]]);
  expect(parts.flat().map(({ id, kind }) => [id, kind])).toEqual([
    [instance, "instance"],
    [instance, "instance"],
    [`${instance}1`, "instance"],
  ]);
});
