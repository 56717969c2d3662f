import { CodedError } from "cloud-controller-host/sdk";

/** A package of the lock file, once per version. */
export interface LockedPackage {
  readonly name: string;
  readonly version: string;
  /** SHA-512 of the package's archive, in hex. */
  readonly sha512: string;
  /** `name@version` of what it depends on, sorted. */
  readonly dependencies: readonly string[];
}

export interface ProductionPackages {
  /** `name@version` of the direct dependencies, sorted. */
  readonly direct: readonly string[];
  /** Sorted by `name@version`. */
  readonly packages: readonly LockedPackage[];
}

type Dependencies = Readonly<Record<string, string>>;

interface LockFile {
  readonly workspaces: { readonly "": { readonly dependencies: Dependencies } };
  readonly packages: Readonly<
    Record<
      string,
      readonly [id: string, source: string, more: { readonly dependencies?: Dependencies }, integrity: string]
    >
  >;
}

export const idOf = ({ name, version }: Pick<LockedPackage, "name" | "version">): string => `${name}@${version}`;

/** Deleted by the Containerfile: `@azure/identity` loads it in browsers only. */
const notShipped = new Set(["@azure/msal-browser"]);

/** The packages of `bun.lock` that the image has: without development, optional and peer dependencies. */
export function productionPackages(content: string): ProductionPackages {
  // JSON but for trailing commas.
  const lock: LockFile = JSON.parse(content.replaceAll(/,(\s*[}\]])/g, "$1"));
  const found = new Map<string, LockedPackage>();
  const visit = (key: string): string => {
    const entry = lock.packages[key];
    if (entry === undefined) throw new CodedError("BuildFailed", `bun.lock has no package ${key}`);
    const [id, , { dependencies = {} }, integrity] = entry;
    const at = id.lastIndexOf("@");
    const known = found.get(id);
    if (known !== undefined) return id;
    const dependsOn: string[] = [];
    const sha512 = Buffer.from(integrity.replace(/^sha512-/, ""), "base64").toString("hex");
    found.set(id, { name: id.slice(0, at), version: id.slice(at + 1), sha512, dependencies: dependsOn });
    for (const name of Object.keys(dependencies))
      if (!notShipped.has(name)) dependsOn.push(visit(resolved(lock, key, name)));
    dependsOn.sort();
    return id;
  };
  const direct = Object.keys(lock.workspaces[""].dependencies).map(visit).toSorted();
  return { direct, packages: [...found.values()].toSorted((a, b) => (idOf(a) < idOf(b) ? -1 : 1)) };
}

/** The key of the package that `name` means inside the package of `key`: the nearest one above it, as for Node. */
function resolved({ packages }: LockFile, key: string, name: string): string {
  const folders = key.split(/\/(?=@|[^@/]+(?:\/|$))/);
  for (let depth = folders.length; depth > 0; depth--) {
    const nested = `${folders.slice(0, depth).join("/")}/${name}`;
    if (nested in packages) return nested;
  }
  return name;
}
