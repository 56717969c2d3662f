import { expect, setDefaultTimeout, test } from "bun:test";

import { kinds } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { freePort } from "../envtest/free-port.ts";
import { SandboxLab } from "./sandbox-lab.ts";

setDefaultTimeout(120_000);

const source = `
  import { defineController } from "cloud-controller-host/sdk";
  export default defineController({
    name: "warning-controller",
    construct: () => () => ({
      run: (signal) => new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true })),
      warnings: () => [
        "deletions are held",
        { kind: "RemovalsHeld", text: "a removal is held", since: "2026-11-22T12:00:00Z", source: "another" },
      ],
    }),
  });
`;

test("/statusz and the console report a controller's warnings, plain and of a known kind, while /healthz stays healthy", async () => {
  await using lab = await SandboxLab.open();
  const directory = await lab.plugin("warning", source);
  const host = lab.start({ flags: [directory, "--controllers=warning-controller"], port: freePort() });
  await host.until("it runs", ({ running }) => running);
  const status: unknown = await (await host.get("/statusz")).json();
  expect(status).toMatchObject({
    warnings: ["warning-controller: deletions are held", "warning-controller: a removal is held"],
  });
  const overview: unknown = await (await host.get("/ui/api/overview")).json();
  expect(overview).toMatchObject({
    problems: [
      { title: "Removals are held", cause: "a removal is held", since: "2026-11-22T12:00:00Z", view: "plan" },
      { title: "warning-controller needs an operator", cause: "deletions are held" },
    ],
  });
  expect((await host.get("/healthz")).status).toBe(200);
});

test("/statusz, /configz and the console answer while warnings() of a controller throws, with its error", async () => {
  await using lab = await SandboxLab.open();
  const throwing = source.replace(
    "warnings: () => [",
    `warnings: () => { throw new Error("no list yet"); }, others: () => [`,
  );
  const directory = await lab.plugin("warning", throwing);
  const host = lab.start({ flags: [directory, "--controllers=warning-controller"], port: freePort() });
  await host.eventually("it runs", () => host.lines("Starting controller").length > 0);
  const answers = await Promise.all(["/statusz", "/configz", "/ui/api/overview"].map((path) => host.get(path)));
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
  const text = "its warnings() failed: no list yet";
  expect((await host.status()).warnings).toEqual([`warning-controller: ${text}`]);
  const overview: unknown = await (await host.get("/ui/api/overview")).json();
  expect(overview).toMatchObject({ problems: [{ title: "warning-controller needs an operator", cause: text }] });
});

test("/statusz reports requests that the cloud does not answer, from the first attempt on", async () => {
  await using lab = await SandboxLab.open();
  const host = lab.start({ port: freePort() });
  await host.until("it runs", ({ running }) => running);
  lab.azure.simulator.failNext({ path: "/providers/" }, { status: 503, times: 1_000 });
  const taints = [{ key: "node.cloudprovider.kubernetes.io/uninitialized", value: "true", effect: "NoSchedule" }];
  lab.api.create(kinds.Node, { metadata: { name: "new" }, spec: { taints } });
  const status = await host.until("the cloud has a warning", ({ warnings }) => warnings.length > 0);
  expect(status.warnings[0]).toMatch(
    /^azure-cloud: GET microsoft\.compute\/\S+ fails since \S+, \d+ attempts?: the reply was 503$/u,
  );
});

test("a generation without controllers logs a warning, and /statusz has the times and the reason of each skipped controller", async () => {
  await using lab = await SandboxLab.open();
  const host = lab.start({ flags: ["--controllers=node-ipam-controller"], port: freePort() });
  const status = await host.until("it runs", ({ running }) => running);
  const warnings = (): number =>
    host.lines("No controllers run; check --controllers and the skipped controllers").length;
  await host.eventually("the warning is logged", () => warnings() > 0);
  expect(warnings()).toBe(1);
  const [startedAt, generationStartedAt] = [status.startedAt, status.generationStartedAt ?? ""].map(Date.parse);
  expect(startedAt).toBeGreaterThan(Date.now() - 600_000);
  expect(generationStartedAt).toBeGreaterThanOrEqual(startedAt ?? Number.NaN);
  expect(status.skipped).toEqual([{ name: "node-ipam", reason: "--allocate-node-cidrs is false" }]);
  expect(status.controllers).toEqual([]);
});

test("a running controller logs no warning about missing ones", async () => {
  await using lab = await SandboxLab.open();
  const host = lab.start({ port: freePort() });
  await host.until("it runs", ({ running }) => running);
  expect(host.lines("No controllers run")).toEqual([]);
});

test("the lease is renewed however low --kube-api-qps is", async () => {
  await using lab = await SandboxLab.open();
  const { host } = await lab.host([
    "--kube-api-qps=0.01",
    "--kube-api-burst=1",
    "--leader-elect-lease-duration=20s",
    "--leader-elect-renew-deadline=15s",
    "--leader-elect-retry-period=200ms",
  ]);
  const renewals = new Set<string | undefined>();
  await eventually("the lease is renewed five times", () => {
    renewals.add(lab.lease()?.renewTime);
    return renewals.size > 5;
  });
  expect(host.status.leading).toBe(true);
  expect(lab.api.get(kinds.Lease, { namespace: "kube-system", name: "cloud-controller-manager" })).toBeDefined();
});
