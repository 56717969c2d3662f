import { afterAll, afterEach, beforeAll } from "bun:test";

import type { Browser } from "puppeteer-core";

import { type Forward, type Loopback, serveLoopback } from "../../host/console/loopback.ts";
import { openSandbox, type Sandbox } from "../../host/sandbox-host.ts";
import { createService, untilReady } from "../kit/sandbox-services.ts";
import { openBrowser, type WatchedPage, watchedPage } from "./browser.ts";

/** Pages of a sandbox with Service web, for all tests of a file; each test's own pages are closed after it. */
export class SandboxPages {
  #sandbox: Sandbox | undefined;
  #browser: Browser | undefined;
  open: readonly WatchedPage[] = [];

  constructor() {
    beforeAll(async () => {
      [this.#sandbox, this.#browser] = await Promise.all([openSandbox(), openBrowser()]);
      await createService(this.sandbox, "web");
      await untilReady(this.sandbox, "web");
    });
    afterEach(async () => {
      await Promise.all(this.open.map(({ page }) => page.close()));
      this.open = [];
    });
    afterAll(async () => {
      await this.#browser?.close();
      await this.#sandbox?.[Symbol.asyncDispose]();
    });
  }

  get sandbox(): Sandbox {
    if (this.#sandbox === undefined) throw new Error("the sandbox has not started");
    return this.#sandbox;
  }

  get browser(): Browser {
    if (this.#browser === undefined) throw new Error("the browser has not started");
    return this.#browser;
  }

  async visit(path: string, base = this.sandbox.consoleUrl ?? ""): Promise<WatchedPage> {
    const watched = await watchedPage(this.browser, new URL(base).origin);
    this.open = [...this.open, watched];
    await watched.page.goto(new URL(path, base).href, { waitUntil: "domcontentloaded" });
    return watched;
  }

  /** Serves the console on a loopback address of its own; `change` comes between it and the host. */
  serve(port: number, change: (send: Forward) => Forward = (send) => send): Loopback {
    const { host, api } = this.sandbox;
    return serveLoopback(
      port,
      change((path, headers, signal) => {
        if (!headers.has("Authorization")) headers.set("Authorization", `Bearer ${api.tokens.of("admin")}`);
        return fetch(`${host.url}${path}`, { headers, signal, tls: { rejectUnauthorized: false } });
      }),
    );
  }
}
