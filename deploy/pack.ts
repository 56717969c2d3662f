/**
 * Builds the package that plugin authors install: `bun run pack [DIRECTORY]` writes `cloud-controller-host-VERSION.tgz`
 * there (default: the working directory). Compiled declarations are next to the sources, so that the consumer's type
 * checker reads no source of ours.
 */
import { chmod, cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";

const root = join(import.meta.dir, "..");
const folders = ["sdk", "host", "plugins"] as const;
const bin = "host/main.ts";
const entries = {
  "./sdk": "sdk/index",
  "./sdk/testing": "sdk/testing",
  "./sdk/testing/api-server": "sdk/testing/api-server/index",
  "./sandbox": "host/sandbox-host",
} as const;

const target = resolve(process.argv[2] ?? ".");
const staging = await mkdtemp(join(tmpdir(), "cloud-controller-host-pack-"));
try {
  await mkdir(target, { recursive: true });
  const declarations = join(staging, "declarations");
  await writeFile(join(staging, "tsconfig.json"), JSON.stringify(declarationProject(declarations)));
  await run(["bun", "x", "--no-install", "tsc", "-p", staging]);
  const content = join(staging, "package");
  await copySources(content);
  await copyDeclarations(declarations, join(content, "types"));
  await writeFile(join(content, "package.json"), `${JSON.stringify(await manifest(), undefined, 2)}\n`);
  await chmod(join(content, bin), 0o755);
  await run(["bun", "pm", "pack", "--destination", target, "--quiet"], content);
} finally {
  await rm(staging, { recursive: true, force: true });
}
const { version } = await manifest();
process.stdout.write(`${relative(process.cwd(), join(target, `cloud-controller-host-${version}.tgz`))}\n`);

/** One project for the entries and all that they import. */
function declarationProject(outDir: string): object {
  return {
    extends: join(root, "tsconfig.json"),
    compilerOptions: {
      composite: false,
      declaration: true,
      emitDeclarationOnly: true,
      rootDir: root,
      outDir,
      typeRoots: [join(root, "node_modules", "@types")],
    },
    files: Object.values(entries).map((file) => join(root, `${file}.ts`)),
    references: [],
  };
}

async function copySources(content: string): Promise<void> {
  await mkdir(content, { recursive: true });
  const skipped = /(^|\/)(node_modules|\.types|tsconfig\.json|[^/]*\.test\.ts)(\/|$)/u;
  for (const folder of folders)
    await cp(join(root, folder), join(content, folder), {
      recursive: true,
      filter: (path) => !skipped.test(relative(root, path)),
    });
  for (const file of ["README.md", "LICENSE"]) await cp(join(root, file), join(content, file));
}

/** Declarations import each other by `.ts`; consumers resolve `.js` to the declaration in every module mode. */
async function copyDeclarations(from: string, to: string): Promise<void> {
  for (const name of await readdir(from, { recursive: true })) {
    if (!name.endsWith(".d.ts")) continue;
    const text = await readFile(join(from, name), "utf8");
    await mkdir(join(to, name, ".."), { recursive: true });
    await writeFile(join(to, name), text.replaceAll(/(["'])(\.{1,2}\/[^"']+)\.ts\1/gu, "$1$2.js$1"));
  }
}

async function manifest() {
  const source = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
  return {
    name: source.name,
    version: source.version,
    description: source.description,
    license: source.license,
    type: source.type,
    private: source.private,
    bin: source.bin,
    files: [...folders, "types"],
    exports: Object.fromEntries(
      Object.entries(entries).map(([name, file]) => [name, { types: `./types/${file}.d.ts`, default: `./${file}.ts` }]),
    ),
    engines: { bun: ">=1.4.5" },
    // Declarations of the sandbox and the scaffolded tests name Bun's types.
    dependencies: { ...source.dependencies, "@types/bun": source.devDependencies["@types/bun"] },
  };
}

async function run(command: readonly string[], cwd = root): Promise<void> {
  const child = Bun.spawn([...command], { cwd, stdout: "pipe", stderr: "pipe" });
  const [output, errors, status] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  if (status !== 0) throw new Error(`${command.join(" ")} failed with ${status}:\n${output}${errors}`);
}
