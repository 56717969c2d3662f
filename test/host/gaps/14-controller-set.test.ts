import { describe, expect, setDefaultTimeout, test } from "bun:test";

import { readCommand } from "../../../host/cli/command.ts";
import { SandboxLab } from "../sandbox-lab.ts";

setDefaultTimeout(120_000);

const five = [
  "cloud-node-controller",
  "cloud-node-lifecycle-controller",
  "node-ipam",
  "node-route-controller",
  "service-lb-controller",
] as const;

async function listed(argv: readonly string[]): Promise<readonly string[] | string> {
  let stderr = "";
  const input = await readCommand([...argv, "--cloud-config=a-file", "--configure-cloud-routes=false"], {
    environment: {},
    stdout: () => undefined,
    stderr: (text) => (stderr += text),
    width: 100,
  });
  return "status" in input ? stderr : input.options.controllers;
}

describe("the Azure provider's five controllers", () => {
  test("are available under their names, node-ipam included", async () => {
    let text = "";
    const output = { environment: {}, stdout: (out: string) => (text += out), stderr: () => undefined, width: 300 };
    expect(await readCommand(["--help"], output)).toEqual({ status: 0 });
    for (const name of five) expect(text).toContain(name);
  });

  test("are found by every name used in manifests", async () => {
    const names = ["cloud-node", "cloud-node-lifecycle", "service", "route", "nodeipam", "node-ipam-controller"];
    expect(await listed([`--controllers=${names.join(",")}`])).toEqual([
      "cloud-node-controller",
      "cloud-node-lifecycle-controller",
      "service-lb-controller",
      "node-route-controller",
      "node-ipam",
      "node-ipam",
    ]);
    expect(await listed(["--controllers=*,-nodeipam"])).toEqual(["*", "-node-ipam"]);
    const [, known = ""] = /known are (.+)/.exec(String(await listed(["--controllers=node-ipan"]))) ?? [];
    expect(known.split(", ").toSorted()).toEqual([...five]);
  });

  test("start together in one order, each with its health check from the start", async () => {
    await using lab = await SandboxLab.open();
    const host = lab.start({
      flags: [
        "--controllers=*",
        "--configure-cloud-routes=false",
        "--allocate-node-cidrs",
        "--cluster-cidr=10.244.0.0/16",
      ],
    });
    const { controllers } = await host.until("they run", ({ running }) => running);
    expect(controllers.filter((name) => !five.some((known) => known === name))).toEqual([]);
    for (const name of ["cloud-node-controller", "cloud-node-lifecycle-controller", "node-ipam"])
      expect(controllers).toContain(name);
    const lines = (await (await host.get("/healthz?verbose")).text()).split("\n");
    expect(lines).toEqual([
      "[+]leaderElection ok",
      ...controllers.map((name) => `[+]${name} ok`),
      "healthz check passed",
      "",
    ]);
    expect(await host.stop()).toBe(0);
    // Those without work here report that they are skipped.
    expect(host.lines("Controller skipped: --configure-cloud-routes is false")).toHaveLength(1);
  });
});
