import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { ReadableStreamDefaultReader } from "node:stream/web";

import { createCertificateAuthority } from "../envtest/certificate-authority.ts";
import { freePort } from "../envtest/free-port.ts";
import { SandboxLab } from "../host/sandbox-lab.ts";
import type { HostProcess } from "../kit/host-process.ts";
import { usageOf } from "../kit/process-usage.ts";
import type { AttackName, Target } from "./attacks.ts";
import type { ProbeReport, ProbeTarget } from "./prober.ts";

/** What an attack did to the host. */
export interface Damage extends ProbeReport {
  /** Of the attack. */
  readonly connections: number;
  readonly cpuSeconds: number;
  /** The same process led before and leads after the attack. */
  readonly keptLease: boolean;
}

/** For what a killed attacker or a slow machine leaves unfinished. */
const graceMs = 30_000;

const webhook = `import { defineWebhook } from "cloud-controller-host/sdk";
export default defineWebhook({
  name: "any",
  path: "/any",
  rules: [{ apiGroups: [""], apiVersions: ["v1"], resources: ["configmaps"], operations: ["CREATE"] }],
  admit: () => ({ allowed: true }),
});
`;

/** A host that leads, in a process of its own, and the sandbox that it works for. */
export class Victim implements AsyncDisposable {
  readonly lab: SandboxLab;
  readonly host: HostProcess;
  readonly port: number;
  readonly webhookPort: number;
  /** A standby that is not attacked. */
  readonly #controlPort: number;

  static async start(): Promise<Victim> {
    const lab = await SandboxLab.open();
    const port = freePort();
    const bundle = join(lab.azure.folder, "clients.crt");
    await writeFile(bundle, (await createCertificateAuthority("clients")).certPem);
    const flags = [
      "--authorization-always-allow-paths=/healthz,/livez,/readyz,/statusz",
      `--client-ca-file=${bundle}`,
      `--requestheader-client-ca-file=${bundle}`,
    ];
    const webhookPort = freePort();
    const webhooks = [
      await lab.plugin("any", webhook),
      "--webhooks=*",
      "--feature-gates=CloudControllerManagerWebhook=true",
      "--webhook-bind-address=127.0.0.1",
      `--webhook-secure-port=${webhookPort}`,
    ];
    const controlPort = freePort();
    const host = lab.start({ port, flags: [...flags, ...webhooks] });
    const victim = new Victim({ lab, host, port, webhookPort, controlPort });
    await victim.host.until("it leads", ({ leading, running }) => leading && running);
    const control = lab.start({ port: controlPort, flags });
    await control.until("it stands by", ({ leading, leader }) => !leading && leader !== "");
    return victim;
  }

  private constructor(parts: Pick<Victim, "lab" | "host" | "port" | "webhookPort"> & { readonly controlPort: number }) {
    this.lab = parts.lab;
    this.host = parts.host;
    this.port = parts.port;
    this.webhookPort = parts.webhookPort;
    this.#controlPort = parts.controlPort;
  }

  /** Runs an attack while a second client, at another address, probes. */
  async suffer(name: AttackName, target: Omit<Target, "port" | "webhookPort">): Promise<Damage> {
    const holder = this.lab.lease()?.holderIdentity;
    const cpuBefore = await this.cpuSeconds();
    const aim: Target = { ...target, port: this.port, webhookPort: this.webhookPort };
    const probes: ProbeTarget = { port: this.port, controlPort: this.#controlPort, pid: this.host.pid };
    await using prober = Bun.spawn([...script("prober.ts"), JSON.stringify(probes)], { stdin: "pipe", stdout: "pipe" });
    const output = prober.stdout.getReader();
    await output.read();
    const attack = ["nice", ...script("attacker.ts"), name, JSON.stringify(aim)];
    await using attacker = Bun.spawn(attack, { stdout: "pipe" });
    const limit = setTimeout(() => attacker.kill("SIGKILL"), target.durationMs + graceMs);
    const status = await attacker.exited;
    clearTimeout(limit);
    if (status !== 0) throw new Error(`the attacker of "${name}" ended with ${status}`);
    const connections: number = JSON.parse(await attacker.stdout.text());
    const cpuSeconds = (await this.cpuSeconds()) - cpuBefore;
    await prober.stdin.end();
    const report: ProbeReport = JSON.parse(await restOf(output));
    const { leading } = await this.host.status();
    return { ...report, connections, cpuSeconds, keptLease: leading && this.lab.lease()?.holderIdentity === holder };
  }

  async cpuSeconds(): Promise<number> {
    return (await usageOf(this.host.pid)).cpuSeconds;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.lab[Symbol.asyncDispose]();
  }
}

const script = (name: string): readonly string[] => [process.execPath, join(import.meta.dir, name)];

async function restOf(output: ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for (let part = await output.read(); part.value !== undefined; part = await output.read())
    text += decoder.decode(part.value, { stream: true });
  return text;
}
