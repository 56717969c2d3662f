const browsers = ["xdg-open", "open", "wslview"] as const;

/** Opens a page where this machine has a browser; false where it has none, or none that can be started. */
export function openBrowser(url: string): boolean {
  const browser = browsers.find((name) => Bun.which(name) !== null);
  if (browser === undefined) return false;
  try {
    Bun.spawn([browser, url], { stdin: "ignore", stdout: "ignore", stderr: "ignore" }).unref();
    return true;
  } catch {
    return false;
  }
}
