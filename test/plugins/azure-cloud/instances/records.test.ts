import { describe, expect, test } from "bun:test";

import { scaleSetRecord } from "../../../../plugins/azure-cloud/instances/records.ts";

describe("the record of a scale set", () => {
  test("is that of a uniform one unless its mode is flexible, however ARM spells that", () => {
    const isUniform = (orchestrationMode?: string): boolean =>
      scaleSetRecord({ location: "westeurope", ...(orchestrationMode && { orchestrationMode }) }).uniform;
    expect([isUniform(), isUniform("Uniform"), isUniform("Flexible"), isUniform("flexible")]).toEqual([
      true,
      true,
      false,
      false,
    ]);
  });

  test("excludes Windows Server 2019 from pools of IPv6, and no other system", () => {
    const isIPv4Only = (osType: "Linux" | "Windows", image: string): boolean =>
      scaleSetRecord({
        location: "westeurope",
        virtualMachineProfile: {
          storageProfile: { osDisk: { osType, createOption: "FromImage" }, imageReference: { id: image } },
        },
      }).ipv4Only;
    expect(isIPv4Only("Windows", "images/windows-2019-containerd")).toBe(true);
    expect(isIPv4Only("Windows", "images/windows-2022-containerd")).toBe(false);
    expect(isIPv4Only("Linux", "images/17763")).toBe(false);
  });
});
