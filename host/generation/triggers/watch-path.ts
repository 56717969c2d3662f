import { type FSWatcher, lstatSync, readlinkSync, watch } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";

export interface SourceWatch {
  close(): void;
  /** Restores watches that were lost. Cheap; called on every poll. */
  rearm(): void;
}

const linkLimit = 16;

/**
 * Hints at changes of the file behind `path`. Not the file but the folders are watched, every one that the chain of
 * symbolic links passes through: so a truncated write, a rename over it, a delete and re-create and a swap of a
 * volume's `..data` link are all seen, and none of them loses the watch. Other files of these folders, which may be
 * written all the time, give no hint. A folder that goes away is watched again by `rearm`, which the owner calls now and
 * then.
 */
export function watchPath(path: string, hint: () => void): SourceWatch {
  const watchers = new Map<string, { readonly identity: string; readonly watcher: FSWatcher }>();
  let folders: Folders = new Map();

  const drop = (folder: string): void => {
    watchers.get(folder)?.watcher.close();
    watchers.delete(folder);
  };

  const rearm = (): void => {
    folders = foldersOf(path);
    for (const folder of watchers.keys()) if (!folders.has(folder)) drop(folder);
    for (const folder of folders.keys()) {
      const identity = identityOf(folder);
      if (identity === watchers.get(folder)?.identity) continue;
      drop(folder);
      if (identity === undefined) continue;
      try {
        const watcher = watch(folder, { persistent: false }, (_, name) => {
          // Without a name, or with the folder's own, it is about the folder.
          if (name === null || name === basename(folder) || folders.get(folder)?.has(name) === true) hint();
        });
        watcher.on("error", () => drop(folder));
        watchers.set(folder, { identity, watcher });
      } catch {
        // The folder went away between the look and the watch: the next rearm tries again.
      }
    }
  };

  rearm();
  return {
    rearm,
    close() {
      for (const folder of watchers.keys()) drop(folder);
    },
  };
}

/** The names in each folder that the way to the file passes through. */
type Folders = ReadonlyMap<string, ReadonlySet<string>>;

/** The folders of the path itself and of every link on the way to the file, at whatever level it stands. */
function foldersOf(path: string): Folders {
  const folders = new Map<string, Set<string>>();
  const add = (entry: string): void => {
    folders.set(dirname(entry), (folders.get(dirname(entry)) ?? new Set()).add(basename(entry)));
  };
  const seen = new Set<string>();
  const visit = (current: string): void => {
    if (seen.has(current) || seen.size > linkLimit) return;
    seen.add(current);
    add(current);
    for (let link = current; link !== dirname(link); link = dirname(link)) {
      const target = linkTarget(link);
      if (target === undefined) continue;
      add(link);
      visit(join(resolve(dirname(link), target), current.slice(link.length)));
    }
  };
  visit(resolve(path));
  return folders;
}

function linkTarget(path: string): string | undefined {
  try {
    return lstatSync(path).isSymbolicLink() ? readlinkSync(path) : undefined;
  } catch {
    return undefined;
  }
}

/** A folder that was deleted and recreated often has the inode number of the old one, but not its time of birth. */
function identityOf(folder: string): string | undefined {
  try {
    const { dev, ino, birthtimeNs } = lstatSync(folder, { bigint: true });
    return `${dev} ${ino} ${birthtimeNs}`;
  } catch {
    return undefined;
  }
}
