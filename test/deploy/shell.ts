import { eventually } from "cloud-controller-host/sdk/testing";

/** A shell in a terminal, into which commands are typed; its working directory follows `cd`. */
export class Shell implements AsyncDisposable {
  readonly process: Bun.Subprocess;
  screen = "";

  constructor(cwd: string, environment: Readonly<Record<string, string>> = {}) {
    this.process = Bun.spawn(["bash", "--norc", "-i"], {
      cwd,
      env: { ...process.env, PS1: "$ ", TERM: "dumb", ...environment },
      terminal: {
        cols: 250,
        rows: 50,
        data: (_terminal, bytes) => void (this.screen += Buffer.from(bytes).toString()),
      },
    });
  }

  type(line: string): void {
    this.screen = "";
    this.process.terminal?.write(`${line}\n`);
  }

  async shows(text: string, limitMs = 120_000): Promise<void> {
    await eventually(text, () => this.screen.includes(text), limitMs).catch((error: unknown) => {
      throw new Error(this.screen, { cause: error });
    });
  }

  /** Types a command and returns its exit status. */
  async run(line: string): Promise<number> {
    this.type(`${line}; echo "status=$?."`);
    const [, status = ""] = await eventually(line, () => /status=(\d+)\./u.exec(this.screen) ?? undefined, 180_000);
    return Number(status);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.process.terminal?.write("\u0003");
    this.process.kill("SIGHUP");
    const timer = setTimeout(() => this.process.kill("SIGKILL"), 5000);
    await this.process.exited;
    clearTimeout(timer);
  }
}
