import { cp, mkdir, mkdtemp, readFile, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join, relative } from "node:path";

import { ignored, type Instruction, pairsOf, parseContainerfile, substitute } from "./containerfile.ts";

const repository = join(import.meta.dir, "..", "..");
const containerfile = join(repository, "deploy", "Containerfile");

/** Packages that are not in the cache yet come from a registry. */
export const imageTimeoutMs = 10 * 60_000;

/** What a container engine would keep of the image beside its files. */
export interface ImageConfig {
  readonly labels: ReadonlyMap<string, string>;
  readonly environment: ReadonlyMap<string, string>;
  readonly user: string;
  readonly workingDirectory: string;
  readonly entrypoint: readonly string[];
  readonly ports: readonly string[];
}

/** The image of deploy/Containerfile: its files in a folder, ready to be the root of a process. */
export interface Image extends AsyncDisposable {
  readonly root: string;
  readonly config: ImageConfig;
}

interface Stage {
  readonly root: string;
  readonly config: { -readonly [Key in keyof ImageConfig]: ImageConfig[Key] };
  readonly values: Map<string, string>;
}

/**
 * Follows the steps of deploy/Containerfile without a container engine. The base images are this machine's Bun and the
 * libraries that it is linked with; what `RUN` runs, this machine's shell runs, in the stage's working directory.
 */
export async function assembleImage(buildArguments: Readonly<Record<string, string>> = {}): Promise<Image> {
  await using assembling = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "image-"));
  assembling.defer(() => rm(folder, { recursive: true, force: true }));
  const instructions = parseContainerfile(await readFile(containerfile, "utf8"));
  const isIgnored = ignored(await readFile(`${containerfile}.dockerignore`, "utf8"));
  const global = new Map<string, string>();
  const stages = new Map<string, Stage>();
  let stage: Stage | undefined;
  for (const { name, text } of instructions) {
    if (name === "FROM") {
      const [image = "", , label = String(stages.size)] = substitute(text, global).split(/\s+/);
      stage = await baseStage(join(folder, label), image);
      stages.set(label, stage);
    } else if (stage === undefined) {
      global.set(...argument({ name, text }, buildArguments));
    } else {
      await follow(stage, { name, text }, { buildArguments, stages, isIgnored });
    }
  }
  if (stage === undefined) throw new Error("the Containerfile has no FROM");
  const { root, config } = stage;
  const assembled = assembling.move();
  return { root, config, [Symbol.asyncDispose]: () => assembled.disposeAsync() };
}

function argument({ name, text }: Instruction, given: Readonly<Record<string, string>>): [string, string] {
  if (name !== "ARG") throw new Error(`Containerfile: ${name} before the first FROM`);
  const [[key, value] = ["", ""]] = pairsOf(text);
  return [key, given[key] ?? value];
}

/** Stands in for `oven/bun`: the program, the loader and the libraries, and the user of the distroless images. */
async function baseStage(root: string, image: string): Promise<Stage> {
  if (!/^docker\.io\/oven\/bun:\d/.test(image)) throw new Error(`Containerfile: no stand-in for ${image}`);
  const bun = join(root, "usr", "local", "bin", "bun");
  await mkdir(dirname(bun), { recursive: true });
  await cp(process.execPath, bun, { dereference: true });
  const libraries = await Bun.$`ldd ${process.execPath}`.text();
  for (const [library] of libraries.matchAll(/\/\S+/g)) await cp(library, join(root, library), { dereference: true });
  for (const empty of ["proc", "dev", "tmp", "etc"]) await mkdir(join(root, empty), { recursive: true });
  await Bun.write(join(root, "etc", "passwd"), "nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n");
  const config = {
    labels: new Map<string, string>(),
    environment: new Map([["PATH", "/usr/local/bin:/usr/bin:/bin"]]),
    user: "0:0",
    workingDirectory: "/",
    entrypoint: ["/usr/local/bin/bun"],
    ports: [],
  };
  return { root, config, values: new Map() };
}

interface Surroundings {
  readonly buildArguments: Readonly<Record<string, string>>;
  readonly stages: ReadonlyMap<string, Stage>;
  readonly isIgnored: (path: string) => boolean;
}

async function follow(stage: Stage, instruction: Instruction, around: Surroundings): Promise<void> {
  const { config, values } = stage;
  const text = instruction.name === "RUN" ? instruction.text : substitute(instruction.text, values);
  switch (instruction.name) {
    case "ARG":
      values.set(...argument(instruction, around.buildArguments));
      return;
    case "ENV":
      for (const [key, value] of pairsOf(text)) values.set(key, value);
      config.environment = new Map([...config.environment, ...pairsOf(text)]);
      return;
    case "LABEL":
      config.labels = new Map([...config.labels, ...pairsOf(text)]);
      return;
    case "WORKDIR":
      config.workingDirectory = text;
      await mkdir(join(stage.root, text), { recursive: true });
      return;
    case "USER":
      config.user = text;
      return;
    case "EXPOSE":
      config.ports = [...config.ports, ...text.split(/\s+/)];
      return;
    case "ENTRYPOINT":
      config.entrypoint = JSON.parse(text);
      return;
    case "RUN":
      return run(stage, text);
    case "COPY":
      return copy(stage, text, around);
    default:
      throw new Error(`Containerfile: ${instruction.name} is not known here`);
  }
}

async function run({ root, config }: Stage, command: string): Promise<void> {
  const child = Bun.spawn(["sh", "-euc", command], {
    cwd: join(root, config.workingDirectory),
    stdin: "ignore",
    stdout: "ignore",
    stderr: "pipe",
  });
  const problem = await child.stderr.text();
  if ((await child.exited) !== 0) throw new Error(`Containerfile: RUN ${command}: ${problem.trim()}`);
}

async function copy(stage: Stage, text: string, { stages, isIgnored }: Surroundings): Promise<void> {
  const words = text.split(/\s+/);
  const from = words[0]?.startsWith("--from=") === true ? words.shift()?.slice("--from=".length) : undefined;
  const target = words.pop() ?? "";
  const source = from === undefined ? repository : stages.get(from)?.root;
  if (source === undefined) throw new Error(`Containerfile: COPY --from=${from ?? ""}: no stage of that name`);
  for (const word of words) {
    const into = target.endsWith("/") ? join(target, basename(word)) : target;
    const destination = join(stage.root, stage.config.workingDirectory, into);
    await mkdir(dirname(destination), { recursive: true });
    if (from === undefined) {
      const wanted = (path: string): boolean => !isIgnored(relative(repository, path));
      await cp(join(source, word), destination, { recursive: true, filter: wanted });
    }
    // Nothing is taken from a stage twice, and thousands of files are moved faster than copied.
    else await rename(join(source, word), destination);
  }
}
