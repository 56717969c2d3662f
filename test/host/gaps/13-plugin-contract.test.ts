import { expect, setDefaultTimeout, test } from "bun:test";

import { kinds } from "cloud-controller-host/sdk";

import { SandboxLab } from "../sandbox-lab.ts";

setDefaultTimeout(120_000);

const plugin = `
  import { defineController, kinds, Type } from "cloud-controller-host/sdk";
  export default defineController({
    name: "visitor-controller",
    aliases: ["visitor"],
    initContext: { clientName: "visitors" },
    configSchema: Type.Object({ greeting: Type.String({ default: "hello" }) }),
    construct: ({ clientName }, { own, componentConfig }, cloud) => (context) => {
      let reason = "it has not begun";
      return {
        async run(signal) {
          context.metrics.counter({ name: "visits_total", help: "Visits." }).inc();
          const text = [own.greeting, clientName, cloud.name, componentConfig.kubeCloudShared.clusterName].join(" ");
          await context.client.create(kinds.ConfigMap, {
            metadata: { namespace: "default", name: "visit-" + context.generation },
            data: { text },
          });
          reason = "a visitor is ill";
          await new Promise((done) => signal.addEventListener("abort", done, { once: true }));
        },
        check() { if (reason !== "") throw new Error(reason); },
      };
    },
  });`;

test("gives a third-party controller options, client name, cloud, metrics and a health check like the host's own", async () => {
  await using lab = await SandboxLab.open();
  const host = lab.start({
    flags: [await lab.plugin("visitor", plugin), "--controllers=visitor", "--visitor-controller-greeting=welcome"],
  });
  await host.until("it runs", ({ running }) => running);
  const visit = await host.eventually("it has been there", () =>
    lab.api.get(kinds.ConfigMap, { namespace: "default", name: "visit-1" }),
  );
  expect(visit.data).toEqual({ text: "welcome visitors azure kubernetes" });
  const [request] = lab.api.requests.list({ resource: "configmaps", verb: "create" });
  expect(request?.userAgent).toEndWith("/visitors");

  const metrics = await (await host.get("/metrics")).text();
  expect(metrics).toContain("visits_total 1\n");
  expect(metrics).toContain('running_managed_controllers{name="visitor",manager="cloud-controller-manager"} 1\n');
  const alone = await host.get("/healthz/visitor-controller");
  expect([alone.status, await alone.text()]).toEqual([500, "internal server error: a visitor is ill\n"]);
  expect(await (await host.get("/healthz")).text()).toContain("[-]visitor-controller failed: reason withheld\n");
  // A failing health check of one controller must neither kill the process nor remove it from its Service.
  for (const path of ["/livez", "/readyz"]) expect((await host.get(path)).status).toBe(200);
});
