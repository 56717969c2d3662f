/** One instruction of a Containerfile: `COPY`, and the rest of the line with its continuations. */
export interface Instruction {
  readonly name: string;
  readonly text: string;
}

export function parseContainerfile(content: string): readonly Instruction[] {
  const lines = content.split("\n").filter((line) => !line.trimStart().startsWith("#"));
  return lines
    .join("\n")
    .replaceAll(/\\\n/g, " ")
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => {
      const [, name = "", text = ""] = /^\s*([A-Z]+)\s+(.*?)\s*$/.exec(line) ?? [];
      if (name === "") throw new Error(`Containerfile: not an instruction: ${line}`);
      return { name, text };
    });
}

/** Puts values in the place of `${NAME}`. */
export const substitute = (text: string, values: ReadonlyMap<string, string>): string =>
  text.replaceAll(/\$\{([A-Z_]+)\}/g, (_, name: string) => {
    const value = values.get(name);
    if (value === undefined) throw new Error(`Containerfile: ${name} has no value`);
    return value;
  });

/** `A=b C="d e"` as pairs. */
export const pairsOf = (text: string): readonly (readonly [key: string, value: string])[] =>
  [...text.matchAll(/([\w.]+)=(?:"([^"]*)"|(\S*))/g)].map(([, key = "", quoted, plain]) => [
    key,
    quoted ?? plain ?? "",
  ]);

/** The files that a `.dockerignore` keeps out, as a question. It knows names of folders and files, globs, and files as exceptions. */
export function ignored(content: string): (path: string) => boolean {
  const patterns = content.split("\n").filter((line) => line.trim() !== "" && !line.startsWith("#"));
  const exceptions = new Set(patterns.filter((pattern) => pattern.startsWith("!")).map((pattern) => pattern.slice(1)));
  const globs = patterns.filter((pattern) => !pattern.startsWith("!")).map((pattern) => new Bun.Glob(pattern));
  return (path) => {
    const parts = path.split("/");
    const isIgnored = parts.some((_, index) => globs.some((glob) => glob.match(parts.slice(0, index + 1).join("/"))));
    return isIgnored && !exceptions.has(path);
  };
}
