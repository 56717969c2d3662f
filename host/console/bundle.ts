/**
 * Bundles the page. The image has the result as a file, made by `bun host/console/bundle.ts FILE`; elsewhere it is made
 * when it is first requested.
 */
import { join } from "node:path";

export async function bundlePage(): Promise<string> {
  const { outputs } = await Bun.build({
    entrypoints: [join(import.meta.dir, "page", "main.tsx")],
    target: "browser",
    minify: true,
    jsx: { runtime: "automatic", importSource: "preact", development: false },
  });
  const [script] = outputs;
  if (script === undefined) throw new Error("the bundler returned nothing");
  return script.text();
}

const [, , target] = process.argv;
if (import.meta.main && target !== undefined) await Bun.write(target, await bundlePage());
