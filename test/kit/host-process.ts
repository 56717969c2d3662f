import { mkdtempSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { eventually } from "cloud-controller-host/sdk/testing";

import type { HostStatus } from "../../host/run/status.ts";
import { freePort } from "../envtest/free-port.ts";
import { ownCompilation } from "./compilation.ts";
import { hostMain } from "./host-main.ts";

/** Generous: the machines that run this are shared. */
const defaultPatienceMs = 80_000;

export interface HostProcessOptions {
  readonly flags: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  /** 0 serves nothing. Default: a free port. */
  readonly port?: number;
  /** Timeout of `until` and `eventually`; 80 s by default. */
  readonly patienceMs?: number;
  /** Default: that of `hostMain`. */
  readonly main?: string;
  /** Runs in place of this host: a command that takes the same flags. */
  readonly program?: readonly string[];
}

/** A host in a process of its own, as in a container: real signals, a real exit status. Killed when it is disposed of. */
export class HostProcess implements AsyncDisposable {
  readonly #process: Bun.Subprocess<"ignore", "pipe", "pipe">;
  readonly #reading: Promise<unknown>;
  readonly #port: number;
  readonly #patienceMs: number;
  /** Its `TMPDIR`: files left by a killed host, such as its copies of plugins, are removed with it. */
  readonly #temporary = mkdtempSync(join(tmpdir(), "host-process-"));
  #stdout = "";
  #stderr = "";

  constructor({
    flags,
    environment = {},
    port = freePort(),
    patienceMs = defaultPatienceMs,
    main = hostMain(),
    program = [process.execPath, main],
  }: HostProcessOptions) {
    this.#port = port;
    this.#patienceMs = patienceMs;
    const allow = "--authorization-always-allow-paths";
    const open = flags.some((flag) => flag.startsWith(allow)) ? [] : [`${allow}=/*`];
    const serving = ["--bind-address=127.0.0.1", `--secure-port=${port}`, ...open];
    this.#process = Bun.spawn([...program, ...serving, ...flags], {
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
      env: {
        ...ownCompilation(),
        PATH: process.env["PATH"],
        HOME: process.env["HOME"],
        TMPDIR: this.#temporary,
        ...environment,
      },
    });
    this.#reading = Promise.all([
      collect(this.#process.stdout, (text) => (this.#stdout += text)),
      collect(this.#process.stderr, (text) => (this.#stderr += text)),
    ]);
  }

  get port(): number {
    return this.#port;
  }

  get pid(): number {
    return this.#process.pid;
  }

  get stdout(): string {
    return this.#stdout;
  }

  /** The log and everything else that the process printed on stderr. */
  get stderr(): string {
    return this.#stderr;
  }

  /** Lines of the log that contain a text. */
  lines(text: string): readonly string[] {
    return this.#stderr.split("\n").filter((line) => line.includes(text));
  }

  /** Sends a request to one of its endpoints, by default anonymously. */
  async get(path: string, init: BunFetchRequestInit = {}): Promise<Response> {
    return fetch(`https://127.0.0.1:${this.#port}${path}`, {
      ...init,
      tls: { ...init.tls, rejectUnauthorized: false },
    });
  }

  async status(): Promise<HostStatus> {
    const status: HostStatus = JSON.parse(await (await this.get("/statusz")).text());
    return status;
  }

  /** Waits for a status; at the time limit, rejects with the whole log. */
  async until(awaited: string, holds: (status: HostStatus) => boolean): Promise<HostStatus> {
    const status = await this.eventually(awaited, async () => {
      if (this.#process.exitCode !== null || this.#process.signalCode !== null) return "ended";
      const now = await this.status();
      return holds(now) ? now : undefined;
    });
    if (status !== "ended") return status;
    throw new Error(
      `the host ended with status ${await this.ended()} before ${awaited}\n${this.#stdout}${this.#stderr}`,
    );
  }

  async eventually<T>(awaited: string, ask: () => T | Promise<T>): Promise<Exclude<T, undefined | false>> {
    try {
      return await eventually(awaited, ask, this.#patienceMs);
    } catch (error) {
      throw new Error(`${String(error)}\n${this.#stdout}${this.#stderr}`, { cause: error });
    }
  }

  signal(name: NodeJS.Signals): void {
    this.#process.kill(name);
  }

  /** The exit status, once it has ended by itself or by a signal that was sent. */
  async ended(): Promise<number> {
    const status = await this.#process.exited;
    await this.#reading;
    return status;
  }

  async stop(): Promise<number> {
    this.signal("SIGTERM");
    return this.ended();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#process.kill("SIGKILL");
    await this.ended();
    await rm(this.#temporary, { recursive: true, force: true });
  }
}

async function collect(stream: ReadableStream<Uint8Array>, take: (text: string) => void): Promise<void> {
  const decoder = new TextDecoder();
  for await (const chunk of stream) take(decoder.decode(chunk, { stream: true }));
}
