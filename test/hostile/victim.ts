import { readFile, writeFile } from "node:fs/promises";
import { request } from "node:https";
import { join } from "node:path";

import { createCertificateAuthority } from "../envtest/certificate-authority.ts";
import { SandboxLab } from "../host/sandbox-lab.ts";
import { freePort } from "../kit/free-port.ts";
import type { HostProcess } from "../kit/host-process.ts";
import type { AttackName, Target } from "./attacks.ts";

/** What an attack did to the host. */
export interface Damage {
  /** Of a second client's liveness probes: those that had no reply of 200. */
  readonly failedProbes: readonly string[];
  readonly probes: number;
  readonly slowestProbeMs: number;
  /** Of the same probes to a standby that nobody attacks: how busy the machine is. */
  readonly slowestControlMs: number;
  readonly peakRssMB: number;
  readonly cpuSeconds: number;
  /** The same process led before and leads after the attack. */
  readonly keptLease: boolean;
}

/** A host that leads, in a process of its own, and the sandbox that it works for. */
export class Victim implements AsyncDisposable {
  readonly lab: SandboxLab;
  readonly host: HostProcess;
  readonly port: number;
  /** A standby that nobody attacks. */
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
    const controlPort = freePort();
    const victim = new Victim({ lab, host: lab.start({ port, flags }), port, controlPort });
    await victim.host.until("it leads", ({ leading, running }) => leading && running);
    const control = lab.start({ port: controlPort, flags });
    await control.until("it stands by", ({ leading }) => !leading);
    return victim;
  }

  private constructor(parts: Pick<Victim, "lab" | "host" | "port"> & { readonly controlPort: number }) {
    this.lab = parts.lab;
    this.host = parts.host;
    this.port = parts.port;
    this.#controlPort = parts.controlPort;
  }

  /** Runs an attack while a second client, at another address, probes as kubelet does but ten times a second. */
  async suffer(name: AttackName, target: Omit<Target, "port">): Promise<Damage> {
    const holder = this.lab.lease()?.holderIdentity;
    const cpuBefore = await this.cpuSeconds();
    const attacker = Bun.spawn([
      "nice",
      process.execPath,
      join(import.meta.dir, "attacker.ts"),
      name,
      JSON.stringify({ ...target, port: this.port }),
    ]);
    const probing = { on: true };
    const damage = this.#probe(probing);
    const limit = setTimeout(() => attacker.kill("SIGKILL"), target.durationMs + 20_000);
    await attacker.exited;
    clearTimeout(limit);
    probing.on = false;
    const measured = await damage;
    const cpuSeconds = (await this.cpuSeconds()) - cpuBefore;
    const { leading } = await this.host.status();
    return { ...measured, cpuSeconds, keptLease: leading && this.lab.lease()?.holderIdentity === holder };
  }

  async #probe(probing: { readonly on: boolean }): Promise<Omit<Damage, "cpuSeconds" | "keptLease">> {
    const failedProbes: string[] = [];
    let [probes, slowestProbeMs, slowestControlMs, peakRssMB] = [0, 0, 0, 0];
    while (probing.on) {
      const [{ outcome, tookMs }, control] = await Promise.all([livez(this.port), livez(this.#controlPort)]);
      probes++;
      slowestProbeMs = Math.max(slowestProbeMs, tookMs);
      slowestControlMs = Math.max(slowestControlMs, control.tookMs);
      peakRssMB = Math.max(peakRssMB, await this.rssMB());
      if (outcome !== "200") failedProbes.push(`${outcome} after ${Math.round(tookMs)} ms`);
      await Bun.sleep(100);
    }
    return { failedProbes, probes, slowestProbeMs, slowestControlMs, peakRssMB };
  }

  async rssMB(): Promise<number> {
    const status = await readFile(`/proc/${this.host.pid}/status`, "utf8");
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) / 1024;
  }

  /** Of user and system; Linux counts in hundredths of a second. */
  async cpuSeconds(): Promise<number> {
    const stat = await readFile(`/proc/${this.host.pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return (Number(fields[11]) + Number(fields[12])) / 100;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.lab[Symbol.asyncDispose]();
  }
}

/** One liveness probe over a connection of its own: its status code, or its error. */
async function livez(port: number): Promise<{ readonly outcome: string; readonly tookMs: number }> {
  const startedAt = performance.now();
  const outcome = await new Promise<string>((resolve) => {
    const probe = request({ host: "127.0.0.1", port, path: "/livez", agent: false, rejectUnauthorized: false });
    probe.setTimeout(10_000, () => probe.destroy(new Error("timeout")));
    probe.on("response", (response) => {
      response.resume();
      resolve(String(response.statusCode));
    });
    probe.on("error", (error) => resolve(error.message));
    probe.end();
  });
  return { outcome, tookMs: performance.now() - startedAt };
}
