import { expect, setDefaultTimeout, test } from "bun:test";
import { X509Certificate } from "node:crypto";

import { kinds } from "cloud-controller-host/sdk";

import type { KeyPair } from "../../host/process/serving/self-signed.ts";
import { grantedBy } from "./grants.ts";
import { namespace, release } from "./helm.ts";
import { tokenOf } from "./kubelet.ts";
import { greeterPlugin, modes } from "./modes.ts";
import { describeDeployment } from "./stage.ts";

setDefaultTimeout(120_000);

const fingerprintOf = ({ certPem }: KeyPair): string => new X509Certificate(certPem).fingerprint256;

describeDeployment("a Pod of the chart, with its roles and no others", (stage) => {
  test("initializes nodes with a file that is read once", async () => {
    await stage().configure();
    const manifests = await stage().install(modes.file.values);
    const pod = await stage().start(manifests);
    await pod.container.ready();
    await stage().initialized(await stage().join(2));
    await stage().configure({ userAgent: "changed" });
    await pod.sync();
    expect((await stage().status(pod)).generation).toBe(1);
  });

  test("reloads a file of a mounted Secret, and keeps the current config when the new content is invalid", async () => {
    await stage().configure();
    const pod = await stage().start(await stage().install(modes.reloadedFile.values));
    await stage().until(pod, "it leads", ({ leading, running }) => leading && running);
    await stage().configure({ userAgent: "changed" });
    await pod.sync();
    await stage().until(pod, "the second generation runs", ({ generation, running }) => generation === 2 && running);
    await stage().configure({ vmType: "horse" });
    await pod.sync();
    const { lastRefusal } = await stage().until(pod, "it refuses", (status) => status.lastRefusal !== undefined);
    expect(lastRefusal?.reason).toContain("vmType");
    await stage().initialized(await stage().join(1));
  });

  test("watches a Secret through the API", async () => {
    await stage().configure();
    const pod = await stage().start(await stage().install(modes.secret.values));
    await stage().until(pod, "it leads", ({ leading, running }) => leading && running);
    await stage().configure({ userAgent: "changed" });
    await stage().until(pod, "the second generation runs", ({ generation, running }) => generation === 2 && running);
    await stage().initialized(await stage().join(1));
  });

  test("reads a file of the node", async () => {
    const file = await stage().nodeFile(stage().configText());
    const pod = await stage().start(await stage().install({ cloudConfig: { reload: false, hostPath: file } }));
    await pod.container.ready();
    await stage().initialized(await stage().join(1));
  });

  test("runs as a single replica, without a Lease of leader election and without a role for one", async () => {
    await stage().configure();
    const manifests = await stage().install(modes.alone.values);
    // A leader with load balancers also holds the Lease of the resource locker.
    const locker = "leases.coordination.k8s.io aks-managed-resource-locker in kube-system";
    expect(grantedBy(manifests, release).filter((permit) => permit.includes("leases"))).toEqual([
      "create leases.coordination.k8s.io in kube-system",
      `get ${locker}`,
      `update ${locker}`,
    ]);
    await stage().start(manifests);
    await stage().initialized(await stage().join(1));
    expect((await stage().requested()).filter(({ resource }) => resource === "leases")).toEqual([]);
  });

  test("serves the certificate of a Secret, and reloads it after rotation", async () => {
    await stage().configure();
    const { cluster } = stage();
    const first = await cluster.certificate("first");
    const metadata = { name: "serving", namespace };
    const data = ({ certPem, keyPem }: KeyPair) => ({ "tls.crt": btoa(certPem), "tls.key": btoa(keyPem) });
    await cluster.admin.create(kinds.Secret, { metadata, type: "kubernetes.io/tls", data: data(first) });
    const pod = await stage().start(await stage().install({ serving: { tlsSecretName: "serving" } }));
    await pod.container.ready();
    expect(await pod.container.certificate()).toBe(fingerprintOf(first));
    const second = await cluster.certificate("second");
    await cluster.admin.replace(kinds.Secret, { metadata, type: "kubernetes.io/tls", data: data(second) });
    await pod.sync();
    await pod.container.eventually(
      "the second is served",
      async () => (await pod.container.certificate()) === fingerprintOf(second),
    );
  });

  test("authenticates to Azure with its service account token", async () => {
    await stage().configure({ aadClientId: "", aadClientSecret: "" });
    const pod = await stage().start(await stage().install(modes.workloadIdentity.values));
    await stage().initialized(await stage().join(1));
    expect(pod.container.output).not.toContain("AADSTS");
  });

  test("lets only the scraping service account read its metrics", async () => {
    await stage().configure();
    const { cluster } = stage();
    const prometheus = { name: "prometheus", namespace };
    for (const name of ["prometheus", "bob"])
      await cluster.admin.create(kinds.ServiceAccount, { metadata: { name, namespace } });
    const pod = await stage().start(await stage().install({ metrics: { reader: prometheus } }));
    await pod.container.ready();
    for (const path of ["/metrics", "/metrics/slis"]) {
      const scrape = async (account: string): Promise<Response> => {
        const token = await tokenOf(cluster, { namespace, account });
        return pod.container.get(path, { authorization: `Bearer ${token}` });
      };
      await pod.container.eventually(`Prometheus may read ${path}`, async () => (await scrape("prometheus")).ok);
      expect((await scrape("bob")).status).toBe(403);
      expect((await pod.container.get(path)).status).toBe(403);
    }
  });

  test("runs a plugin from a mounted folder, and reloads its next version", async () => {
    await stage().configure();
    const { admin } = stage().cluster;
    await admin.create(kinds.ConfigMap, greeterPlugin);
    const pod = await stage().start(await stage().install(modes.plugins.values));
    const [first = ""] = await stage().join(1);
    const greeted = (name: string): Promise<unknown> =>
      pod.container.eventually(`ConfigMap ${name} is there`, () =>
        admin.get(kinds.ConfigMap, { namespace: "default", name }).then(
          () => true,
          () => false,
        ),
      );
    await greeted(`greeted-${first}`);
    const next = greeterPlugin.data["plugin.ts"].replace("greeted-", "welcomed-");
    await admin.replace(kinds.ConfigMap, { ...greeterPlugin, data: { "plugin.ts": next } });
    await pod.sync();
    await greeted(`welcomed-${first}`);
  });
});
