import { isatty } from "node:tty";

import { messageOf } from "cloud-controller-host/sdk";

import { actions } from "./actions.ts";
import type { Sandbox } from "./open.ts";

const ctrlC = "\u0003";
const escape = "\u001B";
/** The sequences of arrow and function keys after the escape character. */
const afterEscape = /^(?:\[[0-9;]*[@-~]|O?.)?/u;
/** More characters at once were pasted, such as a command for another terminal: no key of it is meant. One may be held. */
const maxKeysAtOnce = 4;

/**
 * Runs an action for each key pressed on a terminal, until it is disposed of. Without a terminal it does nothing.
 * `report` prints what happened and when, `repeat` the addresses, commands and keys.
 */
export function listenToKeys(
  sandbox: Sandbox,
  {
    repeat,
    report,
    stop,
    outputRead,
  }: {
    readonly repeat: () => void;
    readonly report: (sentence: string) => void;
    readonly stop: () => void;
    /** Resolves when the terminal has taken all output. */
    readonly outputRead: (() => Promise<void>) | undefined;
  },
): Disposable {
  const { stdin } = process;
  if (!stdin.isTTY) return { [Symbol.dispose]: () => undefined };
  let isStopping = false;
  const press = (key: string): void => {
    if (key === "q" || key === ctrlC) {
      if (!isStopping) report("Stopping");
      isStopping = true;
      return stop();
    }
    if (isStopping) return;
    if (key === "?" || key === "h") return repeat();
    const action = actions.find((candidate) => candidate.key === key);
    if (action === undefined) return /[!-~]/u.test(key) ? report(`Unknown key ${key}; ? lists the keys`) : undefined;
    Promise.try(() => action.run(sandbox, "", report)).then(
      (sentence) => (action.isWatched ? undefined : report(sentence)),
      (error: unknown) => report(`Error: ${messageOf(error)}`),
    );
  };
  const listener = (data: Buffer): void => {
    const [typed = "", ...others] = data.toString("utf8").split(escape);
    const text = [typed, ...others.map((part) => part.replace(afterEscape, ""))].join("");
    const isPasted = text.length > maxKeysAtOnce && new Set(text).size > 1 && !isStopping;
    if (isPasted) report("Pasted text is ignored: type commands in another terminal; ? lists the keys");
    else text.split("").forEach(press);
  };
  stdin.setRawMode(true);
  stdin.on("data", listener);
  stdin.resume();
  return {
    [Symbol.dispose]() {
      stdin.off("data", listener);
      stdin.pause();
      // A change of mode waits for the terminal's output, and with it the event loop; the process's exit does not. It
      // fails where the terminal was closed.
      const restore = (): unknown => isatty(stdin.fd) && stdin.setRawMode(false);
      if (outputRead === undefined) restore();
      else void outputRead().then(restore);
    },
  };
}

/** Width of the longest command with its argument. */
const commandWidth = 28;

/** The keys, and the commands that do the same from another terminal; at most 80 columns wide. */
export const helpLines = (): readonly string[] => [
  ...actions.map(
    ({ key, command, argument, help }) =>
      `  ${key}  ${`${command}${argument === "" ? "" : ` [${argument}]`}`.padEnd(commandWidth)} ${help}`,
  ),
  `  ?  ${"".padEnd(commandWidth)} addresses, commands and this list`,
  `  q  ${"".padEnd(commandWidth)} stop the sandbox, like Ctrl-C`,
];
