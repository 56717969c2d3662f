const historyLines = 500;

const command = /^ {2}(?:kubectl|curl|npx|bun) /u;
const continues = " \\";

/**
 * The lines of a text, broken between words so that none is wider; further lines of one are indented as its first. A
 * command that is broken between words can still be copied into a shell.
 */
export function wrapped(text: string, width: number): readonly string[] {
  return text.split("\n").flatMap((line) => {
    if (line.length <= width) return [line];
    const glue = command.test(line) ? continues : "";
    const indent = " ".repeat(Math.min(/^\s*/u.exec(line)?.[0].length ?? 0, Math.floor(width / 2)) + 2);
    const lines: string[] = [];
    let rest = line;
    while (rest.length > width) {
      const space = rest.lastIndexOf(" ", width - glue.length);
      const isBreak = space > indent.length;
      lines.push(isBreak ? rest.slice(0, space).trimEnd() + glue : rest.slice(0, width).trimEnd());
      rest = indent + rest.slice(isBreak ? space + 1 : width).trimStart();
    }
    return [...lines, rest];
  });
}

/** A terminal, or a pipe without a width. */
export interface ScreenOutput {
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
  on?(event: "resize", listener: () => void): unknown;
  off?(event: "resize", listener: () => void): unknown;
}

const clearScreen = "\u001b[2J\u001b[H";

/** Prints lines wrapped to the width of the terminal, and the last ones again when the width changes. */
export class Screen implements Disposable {
  readonly #write: (text: string) => void;
  readonly #output: ScreenOutput;
  readonly #history: string[] = [];
  #columns: number | undefined;

  constructor(write: (text: string) => void, output: ScreenOutput) {
    this.#write = write;
    this.#output = output;
    this.#columns = output.columns;
    output.on?.("resize", this.#resized);
  }

  readonly print = (line: string): void => {
    this.#history.push(line);
    if (this.#history.length > historyLines) this.#history.shift();
    this.#write(this.#fitted(line));
  };

  readonly #resized = (): void => {
    if (this.#output.columns === this.#columns) return;
    this.#columns = this.#output.columns;
    const lines = this.#history.flatMap((line) => this.#fitted(line).split("\n").slice(0, -1));
    const rows = Math.max(1, (this.#output.rows ?? 24) - 1);
    this.#write(`${clearScreen}${lines.slice(-rows).join("\n")}\n`);
  };

  #fitted(line: string): string {
    const { isTTY = false, columns = 0 } = this.#output;
    const lines = isTTY && columns > 0 ? wrapped(line, columns) : [line];
    return `${lines.join("\n")}\n`;
  }

  [Symbol.dispose](): void {
    this.#output.off?.("resize", this.#resized);
  }
}
