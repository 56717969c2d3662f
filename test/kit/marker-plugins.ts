import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** The name of the variable by which a marker plugin finds its journal. */
const journalVariable = "MARKER_JOURNAL";

const source = (name: string): string => `
  import { appendFileSync } from "node:fs";
  import { defineController } from "cloud-controller-host/sdk";
  const note = (what) => appendFileSync(process.env["${journalVariable}"], what + " ${name} " + process.pid + "\\n");
  export default defineController({
    name: "${name}",
    construct: () => () => ({
      async run(signal) {
        note("start");
        await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
        await Bun.sleep(5);
        note("stop");
      },
    }),
  });
`;

/** Controllers that only record their starts and stops, in one journal for all processes. */
export class MarkerPlugins {
  /** Value of `--plugin-dir`. */
  readonly directory: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly #journal: string;

  private constructor(folder: string) {
    this.directory = join(folder, "marker-plugins");
    this.#journal = join(folder, "marker-journal");
    this.environment = { [journalVariable]: this.#journal };
  }

  static async write(folder: string, names: readonly string[]): Promise<MarkerPlugins> {
    const plugins = new MarkerPlugins(folder);
    await writeFile(plugins.#journal, "");
    for (const name of names) {
      await mkdir(join(plugins.directory, name), { recursive: true });
      await writeFile(join(plugins.directory, name, "plugin.ts"), source(name));
    }
    return plugins;
  }

  /** Ids of the processes in which a controller runs now, and all overlaps so far: two runs at the same time. */
  async of(name: string): Promise<{ readonly running: readonly number[]; readonly overlaps: readonly string[] }> {
    const running: number[] = [];
    const overlaps: string[] = [];
    const lines = (await readFile(this.#journal, "utf8")).trimEnd().split("\n");
    for (const line of lines) {
      const [what, who, pid] = line.split(" ");
      if (who !== name) continue;
      if (what === "stop") running.splice(running.indexOf(Number(pid)), 1);
      else if (running.push(Number(pid)) > 1) overlaps.push(`${line}, while it ran in ${running.join(" and ")}`);
    }
    return { running, overlaps };
  }
}
