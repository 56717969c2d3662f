const browsers = ["xdg-open", "open", "wslview"] as const;

/** Opens a page where this machine has a browser; false where it has none. */
export function openBrowser(url: string): boolean {
  const browser = browsers.find((name) => Bun.which(name) !== null);
  if (browser === undefined) return false;
  Bun.spawn([browser, url], { stdin: "ignore", stdout: "ignore", stderr: "ignore" }).unref();
  return true;
}
