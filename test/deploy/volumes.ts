import { chmod, mkdir, mkdtemp, readdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";

/** A file of a volume: its path in the volume and its content. */
export type VolumeFiles = ReadonlyMap<string, string | Uint8Array>;

/**
 * Writes a volume of a Secret, a ConfigMap or a token as the kubelet does: the files in a folder of their own, `..data`
 * a link to it that is replaced in one step, and a link through `..data` for each name at the top. A volume that is
 * there already is brought to the new content; the folder before it goes.
 */
export async function writeVolume(volume: string, files: VolumeFiles): Promise<void> {
  await mkdir(volume, { recursive: true });
  const before = (await readdir(volume)).filter((name) => name.startsWith("..2"));
  const folder = await mkdtemp(join(volume, `..${new Date().getUTCFullYear()}_`));
  await chmod(folder, 0o755);
  for (const [path, content] of files) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), content, { mode: 0o644 });
  }
  await symlink(folder.slice(volume.length + 1), join(volume, "..data_tmp"));
  await rename(join(volume, "..data_tmp"), join(volume, "..data"));
  const present = new Set(await readdir(volume));
  for (const name of new Set([...files.keys()].map((path) => path.split("/", 1)[0] ?? "")))
    if (!present.has(name)) await symlink(join("..data", name), join(volume, name));
  for (const name of before) await rm(join(volume, name), { recursive: true });
}
