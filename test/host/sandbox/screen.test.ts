import { expect, test } from "bun:test";

import { Screen, type ScreenOutput, wrapped } from "../../../host/sandbox/screen.ts";

/** A terminal of some size, whose text is kept. */
function terminal(columns: number, rows: number) {
  const listeners = new Set<() => void>();
  const size = { columns, rows };
  let text = "";
  const output: ScreenOutput = {
    isTTY: true,
    get columns() {
      return size.columns;
    },
    get rows() {
      return size.rows;
    },
    on: (_event, listener) => listeners.add(listener),
    off: (_event, listener) => listeners.delete(listener),
  };
  const screen = new Screen((part) => void (text += part), output);
  return {
    screen,
    listeners,
    take: () => {
      const taken = text;
      text = "";
      return taken;
    },
    resize: (next: number) => {
      size.columns = next;
      for (const listener of listeners) listener();
    },
  };
}

const line = "  12:00:00  Node vmss0000003 tainted node.cloudprovider.kubernetes.io/shutdown:NoSchedule";

test("breaks lines between words and indents what continues, down to 40 columns", () => {
  expect(wrapped("short", 40)).toEqual(["short"]);
  const lines = wrapped("  12:00:00  Service default/web is served at 20.0.0.1 and fd12:3456::1", 40);
  expect(lines).toEqual(["  12:00:00  Service default/web is", "    served at 20.0.0.1 and fd12:3456::1"]);
});

test("breaks a word only where it is wider than the screen, and loses nothing", () => {
  const lines = wrapped(`  Host ${"x".repeat(100)}`, 40);
  expect(lines.every((part) => part.length <= 40)).toBe(true);
  expect(lines.map((part) => part.trim()).join("")).toBe(`Host${"x".repeat(100)}`);
});

test("a suggested command that is too wide ends its lines with a backslash, so that a shell takes it as one", () => {
  const words = ["kubectl", "--kubeconfig", ".sandbox/kubeconfig", "create", "service", "loadbalancer", "--tcp=80"];
  for (const width of [40, 50, 60, 70]) {
    const lines = wrapped(`  ${words.join(" ")}`, width);
    expect(lines.filter((part) => part.length > width)).toEqual([]);
    expect(lines.map((part) => part.endsWith(" \\"))).toEqual(lines.map((_, index) => index < lines.length - 1));
    expect(lines.join("\n").replaceAll("\\\n", "").trim().split(/\s+/u)).toEqual(words);
  }
});

test("prints the last lines again, wrapped to the new width, when the terminal is resized", () => {
  const { screen, take, resize } = terminal(120, 6);
  for (let index = 0; index < 10; index++) screen.print(`${line} ${index}`);
  take();
  resize(50);
  const shown = take();
  expect(shown).toStartWith("\u001b[2J\u001b[H");
  const lines = shown.slice(7).trimEnd().split("\n");
  expect(lines.length).toBeLessThanOrEqual(5);
  expect(lines.every((part) => part.length <= 50)).toBe(true);
  expect(lines.at(-1)).toEndWith(" 9");
  resize(50);
  expect(take()).toBe("");
});

test("listens to the terminal until it is disposed of, and leaves the lines of a pipe as they are", () => {
  const { screen, listeners } = terminal(80, 24);
  screen[Symbol.dispose]();
  expect(listeners.size).toBe(0);
  let text = "";
  using pipe = new Screen((part) => void (text += part), {});
  pipe.print("x".repeat(300));
  expect(text).toBe(`${"x".repeat(300)}\n`);
});
