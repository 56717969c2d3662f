import { join } from "node:path";

import { type Defect, withDefect } from "../defects/defect.ts";

const root = join(import.meta.dir, "../../../..");
const put = new Map<Defect, { isLoaded: boolean }>();

/** Puts a defect into the product as its file is loaded, in memory. */
export const putDefect = (defect: Defect): void => void put.set(defect, { isLoaded: false });

/** From the next import on, the product has a defect, or none. Worlds of before keep what they have. */
export function replaceDefect(defect: Defect | undefined): void {
  put.clear();
  if (defect !== undefined) putDefect(defect);
  const stays = /\/node_modules\/|\/sdk\/|\/test\/simulation\/(?:system\/(?:runtime|defects)\/|[^/]+$)/u;
  for (const path of Object.keys(require.cache))
    if (path.startsWith(root) && !stays.test(path.slice(root.length))) delete require.cache[path];
}

/** Defects whose files were not loaded. */
export const unloadedDefects = (): readonly Defect[] =>
  [...put].flatMap(([defect, { isLoaded }]) => (isLoaded ? [] : [defect]));

function withDefects(path: string, text: string): string {
  let source = text;
  for (const [defect, state] of put) {
    if (!path.endsWith(`/${defect.file}`)) continue;
    source = withDefect(source, defect);
    state.isLoaded = true;
  }
  return source;
}

/** From now on, sources of the product have the defects put into them, and are edited, as they are loaded. */
export function editSources(edit: (source: string) => string = (source) => source): void {
  Bun.plugin({
    name: "simulated sources",
    setup(build) {
      build.onLoad({ filter: /\/(?:host|plugins)\/.*\.ts$/u }, async ({ path }) => ({
        contents: withDefects(path, edit(await Bun.file(path).text())),
        loader: "ts",
      }));
    },
  });
}
