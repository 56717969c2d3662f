import { describe, expect, setDefaultTimeout, test } from "bun:test";

import { isUninitialized, kinds } from "cloud-controller-host/sdk";

import { joinNodes } from "../kit/azure.ts";
import type { HostProcess } from "../kit/host-process.ts";
import { SandboxLab } from "./sandbox-lab.ts";

setDefaultTimeout(120_000);

const secret = { namespace: "kube-system", name: "azure-cloud-provider" };

const dataOf = (text: string): Record<string, string> => ({ "cloud-config": btoa(text) });

const fromSecret = ["--cloud-config=", "--enable-dynamic-reloading"];

function write(lab: SandboxLab, text: string, more: Readonly<Record<string, string>> = {}): void {
  const data = { ...dataOf(text), ...more };
  if (lab.api.get(kinds.Secret, secret) === undefined) lab.api.create(kinds.Secret, { metadata: secret, data });
  else lab.api.update(kinds.Secret, secret, (before) => ({ ...before, data }));
}

const runs = (host: HostProcess, generation: number): Promise<unknown> =>
  host.until(`generation ${generation} runs`, (status) => status.generation === generation && status.running);

/** Says when the informer that both share repeats the Secret. */
const watcher = `
  import { defineController, kinds } from "cloud-controller-host/sdk";
  export default defineController({
    name: "resync-controller",
    construct: () => (context) => {
      const secret = { namespace: "${secret.namespace}", fieldSelector: "metadata.name=${secret.name}" };
      context.informers.of(kinds.Secret, secret).handle({
        updated: (before, after) => {
          if (before.metadata.resourceVersion === after.metadata.resourceVersion) context.log.info("resync of the Secret");
        },
      });
      return { run: (signal) => new Promise((done) => signal.addEventListener("abort", () => done(), { once: true })) };
    },
  });`;

describe("a cloud config in a Secret", () => {
  test("is compared by content: another key, the same bytes and a resync change nothing; delete and create is", async () => {
    await using lab = await SandboxLab.open();
    const { configText } = lab.azure;
    write(lab, configText);
    const plugin = await lab.plugin("resync", watcher);
    const host = lab.start({
      flags: [...fromSecret, plugin, "--controllers=cloud-node,resync-controller", "--min-resync-period=500ms"],
    });
    await runs(host, 1);
    const resyncs = (): number => host.lines("resync of the Secret").length;
    await host.eventually("the Secret is repeated", () => resyncs() > 1);
    write(lab, configText, { "another-key": btoa("changed") });
    const seen = resyncs();
    await host.eventually("it is repeated after the other key's change", () => resyncs() > seen + 1);
    expect(await host.status()).toMatchObject({ generation: 1, reloads: 0 });

    write(lab, `${configText}# a change\n`);
    await runs(host, 2);
    lab.api.delete(kinds.Secret, secret);
    const { lastRefusal } = await host.until("its absence is reported", (status) => status.lastRefusal !== undefined);
    expect(lastRefusal?.reason).toContain(
      "Secret kube-system/azure-cloud-provider (key cloud-config): the Secret does not exist",
    );
    expect(await host.status()).toMatchObject({ generation: 2, running: true });
    write(lab, `${configText}# created again\n`);
    await runs(host, 3);
    expect(
      host.lines("Reload started").every((line) => line.includes("Secret kube-system/azure-cloud-provider")),
    ).toBeTrue();
  });

  test("is watched alone: no other Secret of the cluster is requested", async () => {
    await using lab = await SandboxLab.open();
    write(lab, lab.azure.configText);
    const host = lab.start({ flags: fromSecret });
    await runs(host, 1);
    const requests = lab.api.requests.list({ resource: "secrets", username: "cloud-controller-manager" });
    expect(requests.length).toBeGreaterThan(0);
    for (const { namespace, name, path } of requests) {
      expect(namespace).toBe("kube-system");
      expect(name === secret.name || path.includes("fieldSelector=metadata.name%3Dazure-cloud-provider")).toBeTrue();
    }
  });

  test("is decoded like a file: keys in any case, warnings for unknown ones, and the environment's identity", async () => {
    await using lab = await SandboxLab.open();
    const { configText } = lab.azure;
    const [, password = ""] = /aadClientSecret: "(.+)"/.exec(configText) ?? [];
    const text = configText.replace(/aadClientSecret: .+\n/, "").replace("vmType:", "VMTYPE:");
    write(lab, `${text}resourceGruop: g2\n`);
    const [name = ""] = await joinNodes(lab.admin, lab.azure, 1);
    const host = lab.start({ flags: fromSecret, environment: { AZURE_CLIENT_SECRET: password } });
    await host.eventually("the node is initialized", () => {
      const node = lab.api.get(kinds.Node, { name });
      return node !== undefined && !isUninitialized(node);
    });
    expect(host.lines("resourceGruop").join("\n")).toContain(
      "Secret kube-system/azure-cloud-provider (key cloud-config)",
    );
  });

  test.each([
    ["is missing", undefined, "the Secret does not exist; create it or correct --cloud-config-secret-name"],
    ["lacks the key", { other: btoa("x") }, "the Secret has no such key; add it or correct --cloud-config-key"],
    ["is empty", dataOf(""), "it is empty"],
    ["is not a mapping", dataOf("- a"), "must be a mapping"],
  ])(
    "a cloud config in a Secret that %s at the start ends the process with 1 and a message that says what to do",
    async (_, data, problem) => {
      await using lab = await SandboxLab.open();
      if (data !== undefined) lab.api.create(kinds.Secret, { metadata: secret, data });
      const host = lab.start({ flags: fromSecret });
      expect(await host.ended()).toBe(1);
      expect(host.lines('"Exiting" err=')[0]).toContain(problem);
      const last = host.stderr.trimEnd().split("\n").at(-1) ?? "";
      expect(last).toStartWith("Error: ");
      expect(last).toContain(problem);
    },
  );
});

describe("a config that disables the cloud provider", () => {
  test.each([
    ["in YAML", "disableCloudProvider: true\n"],
    ["in JSON, in another case", '{"DisableCloudProvider": true}'],
  ])("%s at the first start makes a leader without controllers, until it is gone", async (_, text) => {
    await using lab = await SandboxLab.open();
    write(lab, text);
    const host = lab.start({ flags: fromSecret });
    await host.until("it leads, disabled", ({ leading, disabled }) => leading && disabled);
    expect(await host.status()).toMatchObject({ running: false, controllers: [], generation: 0 });
    expect((await host.get("/healthz")).status).toBe(200);
    write(lab, lab.azure.configText);
    await host.until("it runs", ({ running, disabled }) => running && !disabled);
    expect(await host.stop()).toBe(0);
  });
});
