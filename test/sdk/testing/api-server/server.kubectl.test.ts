import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { SandboxApiServer } from "../../../../sdk/testing/api-server/index.ts";
import { passedOn, readHandover } from "../../../envtest/handover.ts";

/** The kubectl that `KUBECTL` or `KUBEBUILDER_ASSETS` names, that the tests' control plane has, or on the PATH. */
async function findKubectl(): Promise<string | undefined> {
  const { KUBECTL: named, KUBEBUILDER_ASSETS: assets } = process.env;
  const handover = passedOn(process.env);
  if (named) return named;
  if (assets) return join(assets, "kubectl");
  if (handover) return join((await readHandover(handover)).assets, "kubectl");
  return Bun.which("kubectl") ?? undefined;
}

const kubectl = await findKubectl();
if (kubectl === undefined) process.stderr.write("tests with kubectl are skipped: set KUBECTL to its path\n");

describe.skipIf(kubectl === undefined)("kubectl", () => {
  let server: SandboxApiServer;
  let folder = "";
  let count = 0;

  beforeAll(async () => {
    server = await SandboxApiServer.start();
    folder = await mkdtemp(join(tmpdir(), "sandbox-kubectl-"));
    await writeFile(join(folder, "kubeconfig"), server.kubeconfig());
  });
  afterAll(async () => {
    await server?.close();
    await rm(folder, { recursive: true });
  });

  type Kubectl = Bun.Subprocess<Blob, "pipe", "pipe">;
  const spawn = (args: readonly string[], input = "", environment: Readonly<Record<string, string>> = {}): Kubectl =>
    Bun.spawn([kubectl ?? "", `--kubeconfig=${folder}/kubeconfig`, ...args], {
      env: { PATH: process.env["PATH"], HOME: folder, KUBECACHEDIR: join(folder, "cache"), ...environment },
      stdin: new Blob([input]),
      stdout: "pipe",
      stderr: "pipe",
    });

  /** Runs kubectl, which must succeed without warnings; returns its output. */
  const run = async (command: string, input?: string): Promise<string> => {
    const child = spawn(command.split(" "), input);
    const [output, warnings, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
    expect({ command, code, warnings }).toEqual({ command, code: 0, warnings: "" });
    return output;
  };
  const json = async (command: string): Promise<unknown> => JSON.parse(await run(`${command} -o json`));
  const rows = (table: string): readonly (readonly string[])[] =>
    table
      .trimEnd()
      .split("\n")
      .map((line) => line.split(/\s{2,}/));

  const newNode = async (): Promise<string> => {
    count += 1;
    const name = `node-${count}`;
    await run("create -f -", manifest({ kind: "Node", metadata: { name } }));
    return name;
  };
  const manifest = (object: object): string => JSON.stringify({ apiVersion: "v1", ...object });

  test("version and api-resources describe the server", async () => {
    // An older kubectl warns of the server's version, and rightly.
    const version = spawn(["version"]);
    expect(await version.stdout.text()).toMatch(/Server Version: v1\.\d+\.\d+/);
    expect(await version.exited).toBe(0);
    const resources = await run("api-resources");
    for (const line of [/^nodes +no +v1 +false +Node$/m, /^leases +coordination.k8s.io\/v1 +true +Lease$/m])
      expect(resources).toMatch(line);
    expect(await run("api-versions")).toContain("discovery.k8s.io/v1\n");
  });

  test("get nodes prints their status, roles, addresses and version", async () => {
    const name = await newNode();
    const status = {
      conditions: [{ type: "Ready", status: "True" }],
      addresses: [{ type: "InternalIP", address: "10.1.0.4" }],
      nodeInfo: { kubeletVersion: "v1.36.0", osImage: "Linux", kernelVersion: "6.8", containerRuntimeVersion: "c://1" },
    };
    await run(`patch node ${name} --subresource=status --type=merge -p ${JSON.stringify({ status })}`);
    await run(`label node ${name} node-role.kubernetes.io/worker=`);
    expect(rows(await run(`get node ${name}`))).toEqual([
      ["NAME", "STATUS", "ROLES", "AGE", "VERSION"],
      [name, "Ready", "worker", expect.any(String), "v1.36.0"],
    ]);
    expect((await run(`get node ${name} -o wide`)).split("\n")[1]).toMatch(/10\.1\.0\.4 +<none> +Linux +6\.8 +c:\/\/1/);
    expect(await run(`get node ${name} -o yaml`)).toContain(`  name: ${name}\n`);
    expect(await json(`get node ${name}`)).toMatchObject({ kind: "Node", status });
    expect(await run(`get node ${name} -o name`)).toBe(`node/${name}\n`);
  });

  test("get selects by label, by field and across namespaces", async () => {
    const name = await newNode();
    await run(`label node ${name} find=me`);
    expect(await run("get nodes -l find=me -o name")).toBe(`node/${name}\n`);
    expect(await run(`get nodes --field-selector metadata.name=${name} -o name`)).toBe(`node/${name}\n`);
    expect(await run("get services -A")).toMatch(/^default +kubernetes +ClusterIP +10\.0\.0\.1 +<none> +443\/TCP/m);
    expect(await run("get all -A -o name")).toContain("service/kubernetes\n");
    expect(await run("get nodes --show-labels")).toContain("find=me");
    expect(await run("get nodes --chunk-size=1 --sort-by=.metadata.name -o name")).toContain(`node/${name}\n`);
  });

  test("get prints kind-specific columns for every kind", async () => {
    const kinds = "nodes,services,leases,events,configmaps,secrets,endpointslices,namespaces,serviceaccounts,pods";
    await run("create configmap columns --from-literal=a=b");
    await run("create secret generic columns --from-literal=a=b");
    await run("create serviceaccount columns");
    const shown = await run(`get ${kinds}`);
    expect(shown).toMatch(/^configmap\/columns +1 +\d+s$/m);
    expect(shown).toMatch(/^secret\/columns +Opaque +1 +\d+s$/m);
    expect(shown).toMatch(/^serviceaccount\/columns +\d+s$/m);
    expect(shown).toMatch(/^namespace\/default +Active +\d+s$/m);
  });

  test("get -w prints what happens", async () => {
    const child = spawn(["get", "configmaps", "-w", "--output-watch-events", "--field-selector=metadata.name=watched"]);
    while (server.requests.count({ verb: "watch", resource: "configmaps" }) === 0) await Bun.sleep(10);
    await run("create configmap watched --from-literal=a=b");
    await run("label configmap watched x=y");
    await run("delete configmap watched");
    let seen = "";
    for await (const chunk of child.stdout) {
      seen += new TextDecoder().decode(chunk);
      if (seen.includes("DELETED")) break;
    }
    child.kill();
    await child.exited;
    expect(rows(seen).map(([event]) => event)).toEqual(["EVENT", "ADDED", "MODIFIED", "DELETED"]);
  });

  test("describe prints a node and its events", async () => {
    const name = await newNode();
    const event = {
      kind: "Event",
      metadata: { name: `${name}.1`, namespace: "default" },
      involvedObject: { apiVersion: "v1", kind: "Node", name, uid: name },
      reason: "Registered",
      message: "it is there",
      type: "Normal",
      source: { component: "me" },
      count: 2,
      firstTimestamp: "2026-01-01T00:00:00Z",
      lastTimestamp: "2026-01-01T00:01:00Z",
    };
    await run("create -f -", manifest(event));
    const described = await run(`describe node ${name}`);
    expect(described).toMatch(new RegExp(`^Name: +${name}$`, "m"));
    expect(described).toMatch(/Registered +.*\(x2 over .*\) +me +it is there/);
    expect(await run("get events")).toMatch(/Normal +Registered +node\/node-\d+ +it is there/);
    expect(await run(`events --for=node/${name}`)).toContain("it is there");
    for (const target of ["service kubernetes", "namespace default"])
      expect(await run(`describe ${target}`)).toMatch(/^Name: +\w+$/m);
  });

  test("apply creates, updates, and removes fields that are no longer in the file", async () => {
    const file = (data: object, metadata: object = {}): string =>
      manifest({ kind: "ConfigMap", metadata: { name: "applied", ...metadata }, data });
    expect(await run("apply -f -", file({ a: "1", b: "2" }))).toBe("configmap/applied created\n");
    expect(await run("apply -f -", file({ a: "1", b: "2" }))).toBe("configmap/applied unchanged\n");
    expect(await run("apply -f -", file({ a: "3" }, { labels: { l: "1" } }))).toBe("configmap/applied configured\n");
    expect(await json("get configmap applied")).toMatchObject({ data: { a: "3" }, metadata: { labels: { l: "1" } } });
    const child = spawn(["diff", "-f", "-"], file({ a: "4" }));
    expect(await child.stdout.text()).toContain('+  a: "4"');
    expect(await child.exited).toBe(1);
  });

  test("apply merges the ports of a service and the taints of a node by their merge keys", async () => {
    const service = (...ports: readonly number[]): string =>
      manifest({
        kind: "Service",
        metadata: { name: "web" },
        spec: { type: "LoadBalancer", ports: ports.map((port) => ({ name: `p${port}`, port })) },
      });
    await run("apply -f -", service(80, 443));
    const nodePort = await run("get service web -o jsonpath={.spec.ports[0].nodePort}");
    await run("apply -f -", service(443, 8080));
    expect(await run("get service web -o jsonpath={.spec.ports[*].port}")).toBe("443 8080");
    expect(await run("get service web -o jsonpath={.spec.ports[0].nodePort}")).not.toBe(nodePort);
    expect((await run("get service web")).split("\n")[1]).toMatch(
      /LoadBalancer +10\.\S+ +<pending> +443:\d+\/TCP,8080:\d+\/TCP/,
    );
  });

  test("apply --server-side owns its fields", async () => {
    const file = (value: string): string =>
      manifest({ kind: "ConfigMap", metadata: { name: "ssa" }, data: { a: value } });
    expect(await run("apply --server-side -f -", file("1"))).toBe("configmap/ssa serverside-applied\n");
    await run("apply --server-side --field-manager=other --force-conflicts -f -", file("2"));
    const refused = spawn(["apply", "--server-side", "-f", "-"], file("3"));
    expect(await refused.stderr.text()).toContain('conflict with "other": .data.a');
    expect(await refused.exited).toBe(1);
  });

  test("patch supports all three patch types", async () => {
    const name = await newNode();
    await run(`patch node ${name} --type=merge -p {"spec":{"unschedulable":true}}`);
    await run(`patch node ${name} --type=json -p [{"op":"add","path":"/spec/providerID","value":"azure://x"}]`);
    await run(`patch node ${name} --type=strategic -p {"metadata":{"labels":{"a":"b"}}}`);
    expect(await json(`get node ${name}`)).toMatchObject({
      metadata: { labels: { a: "b" } },
      spec: { unschedulable: true, providerID: "azure://x" },
    });
    expect(await run(`patch node ${name} -p {"metadata":{"labels":{"a":"b"}}}`)).toBe(
      `node/${name} patched (no change)\n`,
    );
  });

  test("label, annotate, taint, cordon and uncordon update a node", async () => {
    const name = await newNode();
    await run(`label node ${name} a=b`);
    await run(`label node ${name} a-`);
    await run(`annotate node ${name} c=d`);
    await run(`taint node ${name} key=value:NoSchedule`);
    await run(`cordon ${name}`);
    expect(await json(`get node ${name}`)).toMatchObject({
      metadata: { annotations: { c: "d" } },
      spec: { unschedulable: true, taints: [{ key: "key", value: "value", effect: "NoSchedule" }] },
    });
    expect((await run(`get node ${name}`)).split("\n")[1]).toContain("SchedulingDisabled");
    await run(`uncordon ${name}`);
    await run(`taint node ${name} key-`);
    expect(await json(`get node ${name}`)).toMatchObject({ spec: {} });
  });

  test("create, replace and edit write whole objects", async () => {
    await run("create service loadbalancer created --tcp=80:8080");
    await run("create service externalname elsewhere --external-name=a.example");
    await run("create configmap whole --from-literal=a=1");
    const object = await json("get configmap whole");
    await run("replace -f -", JSON.stringify({ ...Object(object), data: { a: "2" } }));
    expect(await run("get configmap whole -o jsonpath={.data.a}")).toBe("2");
    const editor = join(folder, "editor");
    await writeFile(editor, `#!/bin/sh\nsed -i 's/a: "2"/a: "3"/' "$1"\n`, { mode: 0o700 });
    const edit = spawn(["edit", "configmap", "whole"], "", { KUBE_EDITOR: editor });
    expect([await edit.stdout.text(), await edit.exited]).toEqual(["configmap/whole edited\n", 0]);
    expect(await run("get configmap whole -o jsonpath={.data.a}")).toBe("3");
  });

  test("delete waits until the object is removed, and a namespace with all its objects", async () => {
    await run("create namespace doomed");
    await run("create configmap in-it -n doomed --from-literal=a=b");
    await run("delete namespace doomed");
    const lookup = spawn(["get", "configmap", "in-it", "-n", "doomed"]);
    expect(await lookup.stderr.text()).toContain("NotFound");
    const name = await newNode();
    expect(await run(`delete node ${name}`)).toContain(`node "${name}" deleted`);
    expect(await run(`get node ${name} --ignore-not-found`)).toBe("");
  });

  test("wait returns when the condition is met", async () => {
    const name = await newNode();
    const waiting = run(`wait node/${name} --for=condition=Ready --timeout=20s`);
    while (server.requests.count({ verb: "watch", resource: "nodes" }) === 0) await Bun.sleep(10);
    const status = { conditions: [{ type: "Ready", status: "True" }] };
    await run(`patch node ${name} --subresource=status --type=merge -p ${JSON.stringify({ status })}`);
    expect(await waiting).toBe(`node/${name} condition met\n`);
  });

  test("explain prints the fields of a kind and the address of the reference", async () => {
    expect((await run("explain node.spec")).replaceAll(/\s+/gu, " ")).toContain(
      "https://kubernetes.io/docs/reference/",
    );
    expect(await run("explain node.spec.taints")).toMatch(/effect\s+<string>/);
    expect(await run("explain service.spec.ports --recursive")).toContain("nodePort");
  });

  test("auth whoami, auth can-i and --as apply the rules of the user", async () => {
    expect(await run("auth whoami")).toMatch(/Username +admin/);
    expect(await run("auth can-i create services")).toBe("yes\n");
    expect(await run("auth can-i --list")).toContain("*.*");
    expect(await run("auth whoami --as=bob")).toMatch(/Username +bob/);
  });

  test("a service account token authenticates", async () => {
    await run("create serviceaccount robot");
    const token = (await run("create token robot")).trim();
    expect(await run(`--token=${token} auth whoami`)).toContain("system:serviceaccount:default:robot");
  });

  test("an unknown field is rejected by name", async () => {
    const refused = spawn(
      ["apply", "-f", "-"],
      manifest({ kind: "Node", metadata: { name: "bad" }, spec: { color: 1 } }),
    );
    expect(await refused.stderr.text()).toContain('unknown field "spec.color"');
    expect(await refused.exited).toBe(1);
  });

  test("needs only the kubeconfig", async () => {
    expect(await readFile(join(folder, "kubeconfig"), "utf8")).toContain("certificate-authority-data");
    expect(await run("cluster-info")).toContain(server.url);
  });
});
