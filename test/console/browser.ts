import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import axe from "axe-core";
import { type Browser, launch, type Page } from "puppeteer-core";

const programs = ["chromium-headless-shell", "chromium", "google-chrome", "chrome"];
const debianPackage = "chromium-headless-shell";

/** Finds a browser, or else installs Debian's, which needs root. The error says what to do. */
async function findBrowser(): Promise<string> {
  const found = programs.map((name) => Bun.which(name)).find((path) => path !== null);
  if (found !== undefined && found !== null) return found;
  if (!existsSync("/usr/bin/apt-get") || process.getuid?.() !== 0)
    throw new Error(`no browser: install one of ${programs.join(", ")}, or run as root on Debian`);
  // One test file at a time: the lists of packages have no lock that apt-get waits for.
  await run("flock", join(tmpdir(), "cloud-controller-host-apt.lock"), "sh", "-c", installScript);
  const installed = Bun.which(debianPackage);
  if (installed === null) throw new Error(`apt-get installed ${debianPackage}, but it is not on the PATH`);
  return installed;
}

const installScript = `command -v ${debianPackage} || { apt-get update -qq && apt-get install -y -qq --no-install-recommends ${debianPackage}; }`;

async function run(...command: readonly string[]): Promise<void> {
  const child = Bun.spawn([...command], {
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, err, status] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  if (status !== 0) throw new Error(`${command.join(" ")} failed with ${status}:\n${out}${err}`);
}

/** Root needs `--no-sandbox`; the pages are ours. */
export const openBrowser = async (): Promise<Browser> =>
  launch({ executablePath: await findBrowser(), args: ["--no-sandbox", "--disable-dev-shm-usage"], headless: "shell" });

/** A page, and everything that must not happen on it. */
export interface WatchedPage {
  readonly page: Page;
  /** Console errors, exceptions, violations of the policy, requests to other origins and failed ones. */
  readonly complaints: readonly string[];
}

/** Opens a page that notes what goes wrong. `refused` are statuses that the test causes. */
export async function watchedPage(browser: Pick<Browser, "newPage">, origin: string): Promise<WatchedPage> {
  const page = await browser.newPage();
  const complaints: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warn") complaints.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => complaints.push(`exception: ${String(error)}`));
  page.on("request", (request) => {
    if (!request.url().startsWith(new URL("/ui", origin).href)) complaints.push(`request: ${request.url()}`);
  });
  return { page, complaints };
}

/** Waits until the visible text of the page contains or matches this. */
export async function untilText(page: Page, wanted: string | RegExp, timeoutMs = 60_000): Promise<string> {
  const until = performance.now() + timeoutMs;
  while (true) {
    const text = String(await page.evaluate("document.body.innerText"));
    if (typeof wanted === "string" ? text.includes(wanted) : wanted.test(text)) return text;
    if (performance.now() > until) throw new Error(`the page does not show ${String(wanted)}; it shows:\n${text}`);
    await Bun.sleep(50);
  }
}

/** The findings of axe in words, none for a sound page. */
export async function axeFindings(page: Page): Promise<readonly string[]> {
  // Parsing it takes as long as a look.
  if ((await page.evaluate("typeof axe")) === "undefined") await page.evaluate(axe.source);
  const found = await page.evaluate(
    "axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ html }) => html).join(' ')))",
  );
  return Array.isArray(found) ? found.map(String) : ["axe did not answer"];
}
