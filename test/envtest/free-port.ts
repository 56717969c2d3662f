/** Below the ports that systems give to outgoing connections, so that none of these takes one in the meantime. */
const ports = { first: 10_000, count: 20_000 } as const;

/** A port that was free a moment ago. */
export function freePort(): number {
  for (;;) {
    const port = ports.first + Math.floor(Math.random() * ports.count);
    if (isFree(port)) return port;
  }
}

function isFree(port: number): boolean {
  try {
    Bun.listen({ hostname: "127.0.0.1", port, socket: { data: () => undefined } }).stop(true);
    return true;
  } catch {
    return false;
  }
}
