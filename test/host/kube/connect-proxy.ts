import { once } from "node:events";
import { connect, createServer } from "node:net";

/** A proxy that connects every name to one port of this machine, and the names that it was asked for. */
export interface ConnectProxy extends AsyncDisposable {
  readonly url: string;
  readonly targets: readonly string[];
}

/** `url`: where it connects every name to. */
export async function proxyTo(url: string): Promise<ConnectProxy> {
  const targets: string[] = [];
  const server = createServer((client) => {
    client.on("error", () => client.destroy());
    client.once("data", (head) => {
      const [, target = ""] = /^CONNECT (\S+) /u.exec(head.toString("latin1")) ?? [];
      targets.push(target);
      const remote = connect(Number(new URL(url).port), "127.0.0.1", () => {
        client.write("HTTP/1.1 200 OK\r\n\r\n");
        client.pipe(remote).pipe(client);
      });
      remote.on("error", () => client.destroy());
      client.on("close", () => remote.destroy());
    });
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const address = server.address();
  return {
    url: `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`,
    targets,
    async [Symbol.asyncDispose]() {
      server.close();
    },
  };
}
