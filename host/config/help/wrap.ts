/** Breaks a text between words into lines of at most `width` columns; a longer word stands alone. */
export function wrap(text: string, width: number): readonly string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(/\s+/)) {
    if (line !== "" && line.length + 1 + word.length > width) {
      lines.push(line);
      line = word;
    } else line = line === "" ? word : `${line} ${word}`;
  }
  return [...lines, line];
}

/** The head of a row of options, with the spaces up to its text; of the first line, program and command. */
const heads = /^(?:Usage: cloud-controller-host \S+ |\s+\S+(?: \S+)*\s{2,}|\s*)/u;
const narrow = 6;

/** The help text of a command at a terminal's width: paragraphs as one text each, rows with their text in a column. */
export function wrapUsage(usage: string, width: number): string {
  return joined(usage)
    .flatMap((line) => {
      if (line.length <= width) return [line];
      const head = heads.exec(line)?.[0] ?? "";
      const [first = "", ...others] = wrap(line.slice(head.length), width - head.length);
      const widest = Math.max(...others.map((text) => text.length), 0);
      const indent = head.length + widest > width ? narrow : head.length;
      const rest = wrap(others.join(" "), width - indent);
      return [head + first, ...(others.length === 0 ? [] : rest.map((text) => " ".repeat(indent) + text))];
    })
    .join("\n");
}

/** The lines of a text, each with those that continue it: the lines of a paragraph, or indented more than a row is. */
function joined(usage: string): readonly string[] {
  const lines: string[] = [];
  for (const line of usage.split("\n")) {
    const previous = lines.at(-1) ?? "";
    const isContinued =
      previous !== "" && line !== "" && (indentOf(line) === 0 ? indentOf(previous) === 0 : indentOf(line) > narrow);
    if (isContinued) lines[lines.length - 1] = `${previous} ${line.trim()}`;
    else lines.push(line);
  }
  return lines;
}

const indentOf = (line: string): number => /^\s*/u.exec(line)?.[0].length ?? 0;
