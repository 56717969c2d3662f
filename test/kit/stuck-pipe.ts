import { expect } from "bun:test";
import { closeSync, constants, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A full pipe whose reader does not read, like that of a hung log collector. */
export class StuckPipe implements Disposable {
  readonly #path = join(tmpdir(), `stuck-${crypto.randomUUID()}`);
  readonly fd: number;

  constructor() {
    expect(Bun.spawnSync(["mkfifo", this.#path]).exitCode).toBe(0);
    this.fd = openSync(this.#path, "r+");
    const writer = openSync(this.#path, constants.O_WRONLY | constants.O_NONBLOCK);
    const fill = (bytes: number): void => {
      try {
        for (;;) writeSync(writer, "x".repeat(bytes));
      } catch (error) {
        expect(error).toHaveProperty("code", "EAGAIN");
      }
    };
    fill(4_096);
    fill(1);
    closeSync(writer);
  }

  [Symbol.dispose](): void {
    closeSync(this.fd);
    rmSync(this.#path);
  }
}
