/** One import of a module, whatever its form. */
export interface Import {
  /** As written: `../kube/client.ts`, `node:path`, `@azure/identity`. */
  readonly from: string;
  /** Erased when the program runs. */
  readonly isType: boolean;
}

const forms: readonly RegExp[] = [
  // import … from "x", export … from "x": from the keyword at the start of a line to the first string.
  /^(?:import|export)\s+(?<type>type\s)?[^"'`;=()]*?\sfrom\s+"(?<from>[^"]+)"/gm,
  // import "x"
  /^import\s+"(?<from>[^"]+)"/gm,
  // import("x"), as a value or in a type
  /\bimport\(\s*"(?<from>[^"]+)"/g,
  /\brequire\(\s*"(?<from>[^"]+)"/g,
];

/** The imports of a formatted TypeScript source. */
export function importsOf(content: string): readonly Import[] {
  return forms.flatMap((form) =>
    [...content.matchAll(form)].map(({ groups = {} }) => ({
      from: groups["from"] ?? "",
      isType: groups["type"] !== undefined,
    })),
  );
}

/** `@azure/identity/x` is of the package `@azure/identity`; a relative path or a module of the runtime is of none. */
export function packageOf(from: string): string | undefined {
  if (/^(\.|node:|bun(:|$))/.test(from)) return undefined;
  return from
    .split("/")
    .slice(0, from.startsWith("@") ? 2 : 1)
    .join("/");
}
