import { join } from "node:path";

const folder = join(import.meta.dir, "page");
/** In the image. */
const bundled = join(import.meta.dir, "page.js");

interface Asset {
  readonly type: string;
  readonly read: () => Promise<string>;
}

/** The files of the page, by the path below `/ui/`. */
const assets: Readonly<Record<string, Asset>> = {
  "page.js": { type: "text/javascript; charset=utf-8", read: readScript },
  "page.css": { type: "text/css; charset=utf-8", read: () => Bun.file(join(folder, "page.css")).text() },
  "icon.svg": { type: "image/svg+xml", read: () => Bun.file(join(folder, "icon.svg")).text() },
};

async function readScript(): Promise<string> {
  const file = Bun.file(bundled);
  if (await file.exists()) return file.text();
  const { bundlePage } = await import("./bundle.ts");
  return bundlePage();
}

const contents = new Map<string, Promise<string>>();

/** Undefined for a file that the page does not have. Each is read once per process. */
export async function assetOf(name: string): Promise<{ readonly type: string; readonly text: string } | undefined> {
  const asset = Object.hasOwn(assets, name) ? assets[name] : undefined;
  if (asset === undefined) return undefined;
  const reading = contents.get(name) ?? asset.read();
  contents.set(name, reading);
  try {
    return { type: asset.type, text: await reading };
  } catch (error) {
    contents.delete(name);
    throw error;
  }
}

export const html = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <title>cloud-controller-host</title>
    <link rel="icon" href="/ui/icon.svg">
    <link rel="stylesheet" href="/ui/page.css">
    <script type="module" src="/ui/page.js"></script>
  </head>
  <body>
    <div id="page"><p>Loading…</p></div>
    <noscript>This page needs JavaScript. The same data as JSON: /ui/api/overview</noscript>
  </body>
</html>
`;
