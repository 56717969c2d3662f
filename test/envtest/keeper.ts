import { closeSync, openSync } from "node:fs";
import { chmod, mkdtemp, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Runs programs that never outlive this process, in a folder that goes with them. */
export interface Keeper extends AsyncDisposable {
  /** Only this user can enter it. */
  readonly directory: string;
  /** Starts a program in the folder; what it prints goes to `<name>.log` there. */
  start(name: string, command: readonly string[], environment?: Readonly<Record<string, string>>): KeptProgram;
}

export interface KeptProgram {
  readonly pid: number;
  /** Undefined while it runs. */
  exitCode(): number | undefined;
  /** Its last lines, for an error message. */
  lastWords(): Promise<string>;
  kill(): Promise<void>;
}

/**
 * Reads `+pid` and `-pid` lines until its input ends, which happens when the process that feeds it ends, however it
 * ends. Then it kills what is still on the list and removes the folder.
 */
const guardian = `
trap '' HUP INT TERM
pids=' '
while read -r line; do
  case $line in
    +*) pids="$pids\${line#+} " ;;
    -*) pids="\${pids%%" \${line#-} "*} \${pids#*" \${line#-} "}" ;;
  esac
done
for pid in $pids; do kill -KILL "$pid"; done 2>/dev/null
tries=0
until rm -rf "$1" 2>/dev/null || [ $((tries += 1)) -gt 50 ]; do sleep 0.1; done
`;

export async function createKeeper(name: string): Promise<Keeper> {
  const directory = await mkdtemp(join(tmpdir(), `${name}-`));
  await chmod(directory, 0o700);
  const guard = Bun.spawn(["sh", "-c", guardian, "guardian", directory], {
    stdin: "pipe",
    stdout: "ignore",
    stderr: "ignore",
    cwd: "/",
  });
  guard.unref();
  const tell = (line: string): void => {
    void guard.stdin.write(`${line}\n`);
    void guard.stdin.flush();
  };
  const running = new Set<KeptProgram>();
  return {
    directory,
    start(program, command, environment = {}) {
      const log = join(directory, `${program}.log`);
      const output = openSync(log, "w", 0o600);
      const child = Bun.spawn([...command], {
        cwd: directory,
        env: { PATH: process.env["PATH"], HOME: directory, ...environment },
        stdin: "ignore",
        stdout: output,
        stderr: output,
      });
      closeSync(output);
      tell(`+${child.pid}`);
      child.unref();
      const kept: KeptProgram = {
        pid: child.pid,
        exitCode: () => (child.signalCode === null ? (child.exitCode ?? undefined) : 128),
        lastWords: async () => (await readFile(log, "utf8")).trim().split("\n").slice(-20).join("\n"),
        async kill() {
          child.kill("SIGKILL");
          await child.exited;
          running.delete(kept);
          tell(`-${child.pid}`);
        },
      };
      running.add(kept);
      return kept;
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([...running].map((program) => program.kill()));
      await guard.stdin.end();
      await guard.exited;
    },
  };
}
