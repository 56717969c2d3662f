import { randomBytes } from "node:crypto";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { CodedError, messageOf } from "cloud-controller-host/sdk";

import { actionOf } from "./actions.ts";
import type { Sandbox } from "./open.ts";

/** Address and token of the running sandbox, readable by its user alone. */
const controlFile = "control.json";
const timeoutMs = 30_000;

/** Accepts commands from `sandboxCommand` in other processes, on loopback and with a token. */
export async function serveControl(sandbox: Sandbox, done: (sentence: string) => void): Promise<AsyncDisposable> {
  const token = randomBytes(24).toString("base64url");
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request) {
      if (request.headers.get("authorization") !== `Bearer ${token}`) return new Response("forbidden", { status: 403 });
      const { searchParams } = new URL(request.url);
      try {
        const argument = searchParams.get("argument") ?? "";
        const action = actionOf(searchParams.get("command") ?? "");
        const sentence = await action.run(sandbox, argument, done);
        // What is shown is for the terminal of the command.
        if (!action.isWatched && !sentence.includes("\n")) done(sentence);
        return new Response(sentence);
      } catch (error) {
        return new Response(messageOf(error), { status: 400 });
      }
    },
  });
  const path = join(sandbox.directory, controlFile);
  await writeFile(path, JSON.stringify({ url: `http://127.0.0.1:${server.port}`, token }), { mode: 0o600 });
  return {
    async [Symbol.asyncDispose]() {
      await rm(path, { force: true });
      await server.stop(true);
    },
  };
}

/** Sends a command to the sandbox that runs in a folder and returns its answer. */
export async function sandboxCommand(directory: string, command: string, argument: string): Promise<string> {
  const { url, token } = await readControl(directory);
  const query = new URLSearchParams({ command, argument });
  const reply = await fetch(`${url}/?${query.toString()}`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}` },
    signal: AbortSignal.timeout(timeoutMs),
  }).catch((cause: unknown) => {
    throw new CodedError(
      "SandboxNotRunning",
      `the sandbox in ${directory} does not answer; if it has ended without cleaning up, start it again`,
      { cause },
    );
  });
  const text = await reply.text();
  if (!reply.ok) throw new CodedError("CommandFailed", text);
  return text;
}

async function readControl(directory: string): Promise<{ readonly url: string; readonly token: string }> {
  // One that cannot be read is about to be written.
  const control = await Bun.file(join(directory, controlFile))
    .json()
    .catch(() => undefined);
  if (control !== undefined) return control;
  throw new CodedError(
    "SandboxNotRunning",
    `no sandbox runs in ${directory}; start one with "sandbox", or name its folder with --directory`,
  );
}
