import { expect, setDefaultTimeout, test } from "bun:test";
import { stat } from "node:fs/promises";
import { join } from "node:path";

import { kinds } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { openSandbox, type Sandbox } from "../../../host/sandbox-host.ts";
import { actionOf } from "../../../host/sandbox/actions.ts";
import { sandboxCommand, serveControl } from "../../../host/sandbox/control.ts";

setDefaultTimeout(120_000);

const open = (): Promise<Sandbox> => openSandbox({ nodes: 1, flags: ["--secure-port=0"] });
const act = (sandbox: Sandbox, command: string, argument = ""): Promise<string> =>
  Promise.try(() => actionOf(command).run(sandbox, argument, () => undefined));

async function serve(sandbox: Sandbox, name: string, ports = [80]): Promise<string> {
  const place = { name, namespace: "default" };
  const spec = { type: "LoadBalancer", ports: ports.map((port) => ({ name: `p${port}`, port })) };
  sandbox.api.create(kinds.Service, { metadata: place, spec });
  return eventually(
    "it is served",
    () => sandbox.api.get(kinds.Service, place)?.status?.loadBalancer?.ingress?.[0]?.ip,
    30_000,
  );
}

test("shows all resources of the cloud, and of a Service just what serves it", async () => {
  await using sandbox = await open();
  const [web, api] = [await serve(sandbox, "web"), await serve(sandbox, "api", [443, 8443])];
  const all = await act(sandbox, "cloud show");
  for (const part of ["virtualNetworks/vnet0", "publicIPAddresses/", web, api, "pool kubernetes: 1 of the VMs"])
    expect(all).toContain(part);

  const shown = await act(sandbox, "cloud show", "service default/api");
  expect(shown).toContain(`, ${api}, of default/api`);
  expect(shown.match(/rule a\w+-TCP-(443|8443): Tcp \d+ to \d+, floating IP, at a/gu)).toHaveLength(2);
  expect(shown.match(/probe /gu)).toHaveLength(2);
  expect(shown).toMatch(
    new RegExp(`rule 50\\d Allow Tcp from Internet to ${api.replaceAll(".", "\\.")} ports 443 8443`, "u"),
  );
  expect(shown).not.toContain(web);
  expect(shown).not.toContain("vnet0");
  expect(await act(sandbox, "cloud show", "service api")).toBe(shown);
});

test("fails the named requests for the named time, and no others; recovery ends it", async () => {
  await using sandbox = await open();
  await serve(sandbox, "first");
  expect(await act(sandbox, "cloud fail", "PUT loadBalancers 403 for=40s")).toBe(
    "PUT loadBalancers fails with 403 for 40 s",
  );
  const place = { name: "second", namespace: "default" };
  sandbox.api.create(kinds.Service, { metadata: place, spec: { type: "LoadBalancer", ports: [{ port: 81 }] } });
  await eventually(
    "the failure is an event",
    () => sandbox.api.list(kinds.Event).some(({ message }) => message?.includes("AuthorizationFailed")),
    30_000,
  );
  expect(sandbox.api.get(kinds.Service, place)?.status?.loadBalancer?.ingress).toBeUndefined();
  // One line for each failure, with ARM's text once.
  const ids = await eventually("two attempts have failed", async () => {
    const log = await Bun.file(sandbox.files.log).text();
    const found = [...log.matchAll(/403 AuthorizationFailed.*?correlation ID ([\w-]+)/gu)].map(([, id]) => id);
    return found.length > 1 && found;
  });
  expect(new Set(ids).size).toBe(ids.length);
  expect(await act(sandbox, "cloud show", "service second")).not.toContain("rule");
  expect(await act(sandbox, "cloud recover")).toBe("The cloud answers as usual");
  await eventually(
    "it is served",
    () => sandbox.api.get(kinds.Service, place)?.status?.loadBalancer?.ingress !== undefined,
    40_000,
  );
});

test("slows every reply for the named time", async () => {
  await using sandbox = await open();
  await act(sandbox, "cloud slow", "700ms for=30s");
  const began = performance.now();
  await serve(sandbox, "web");
  expect(performance.now() - began).toBeGreaterThan(1400);
  await act(sandbox, "cloud recover");
});

test("refuses what it does not understand, with the reason", async () => {
  await using sandbox = await openSandbox({ nodes: 0, flags: ["--secure-port=0", "--controllers=cloud-node"] });
  for (const [command, argument, reason] of [
    ["cloud fail", "PUT", "expected METHOD PATH STATUS, as in: cloud fail PUT loadBalancers 403 --for=40s"],
    ["cloud fail", "PUT loadBalancers 200", "expected METHOD PATH STATUS"],
    ["cloud fail", "EAT loadBalancers 403", "expected METHOD PATH STATUS"],
    ["cloud fail", "PUT loadBalancers 403 for=soon", "cloud fail --for=soon: expected a duration of at most an hour"],
    ["cloud fail", "PUT loadBalancerz 403", 'no request has "loadBalancerz" in its path (did you mean loadBalancers?)'],
    ["cloud fail", "PUT loadBalancerz 403", "the types of resources are loadBalancers, publicIPAddresses, "],
    ["cloud slow", "2d", "cloud slow: expected a duration"],
    ["vm delete", "", "the sandbox has no nodes; create a VM with vm add"],
    ["cloud show", "pod web", 'expected "service NAMESPACE/NAME", or nothing'],
    ["cloud show", "service none", 'no Service of type LoadBalancer is called "none"; the cluster has none'],
  ] as const)
    expect(await act(sandbox, command, argument).catch(String)).toContain(reason);
});

test("a command of another terminal gets what it shows, and the sandbox prints only sentences", async () => {
  await using sandbox = await open();
  const printed: string[] = [];
  await using _ = await serveControl(sandbox, (sentence) => void printed.push(sentence));
  expect(await sandboxCommand(sandbox.directory, "cloud show", "")).toContain("virtualNetworks/vnet0");
  await sandboxCommand(sandbox.directory, "cloud slow", "1ms");
  expect(printed).toEqual(["Every reply of the cloud takes 0.001 s longer for 20 s"]);
});

test("another user of the machine can neither read the sandbox's token nor use its local port without it", async () => {
  await using sandbox = await openSandbox({ nodes: 0, flags: ["--secure-port=0", "--controllers=cloud-node"] });
  const printed: string[] = [];
  await using _ = await serveControl(sandbox, (sentence) => void printed.push(sentence));
  const file = join(sandbox.directory, "control.json");
  expect((await stat(file)).mode & 0o077).toBe(0);
  const { url, token }: { readonly url: string; readonly token: string } = await Bun.file(file).json();
  expect(new URL(url).hostname).toBe("127.0.0.1");
  for (const authorization of [
    undefined,
    "",
    "Bearer",
    "Bearer ",
    "Bearer x",
    token,
    `Bearer ${token}x`,
    `bearer ${token}`,
  ]) {
    const reply = await fetch(`${url}/?command=cloud+break&argument=5`, {
      method: "POST",
      ...(authorization !== undefined && { headers: { authorization } }),
    });
    expect([reply.status, await reply.text()]).toEqual([403, "forbidden"]);
  }
  expect(printed).toEqual([]);
  expect(await sandboxCommand(sandbox.directory, "cloud break", "0")).not.toBe("");
});
