import { createReadStream } from "node:fs";
import { open } from "node:fs/promises";
import { buffer } from "node:stream/consumers";
import { gunzipSync, gzipSync } from "node:zlib";

import { type Static, Type } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { CodedError, messageOf, ProblemsError } from "cloud-controller-host/sdk";

const format = "cloud-controller-host bundle";
const version = 1;
/** Size limit of the document: room for a cluster of about 5,000 nodes. */
const maxBytes = 512 * 1024 * 1024;

/** Flags about files, ports, identities and the log, and those that only print a text. They affect no decision. */
const machineFlags =
  /^(?:kubeconfig|master|cloud-config.*|enable-dynamic-reloading|.*-(?:file|kubeconfig|directory)|cert-dir|bind-address|.*secure-port|audit-log-.*|plugin-(?:dir|lock)|watch-plugins|leader-.*|enable-leader-migration|webhook.*|tls-.*|v|vmodule|log.*|requestheader-.*|permit-.*|authorization-.*|authentication-.*|profiling|contention-profiling|http2-.*|use-service-account-credentials|help|version)$/u;
export const isMachineFlag = (name: string): boolean => machineFlags.test(name);

/** The value of a flag as it can be read again: lists are printed with brackets and read without. */
export const withoutBrackets = (text: string): string => text.replace(/^\[(.*)\]$/su, "$1");

const documentSchema = Type.Record(Type.String(), Type.Unknown());

const optionalText = Type.Optional(Type.String());
const optionalTexts = Type.Optional(Type.Record(Type.String(), Type.String()));

const objectSchema = Type.Object({
  metadata: Type.Object({
    name: Type.String({ minLength: 1 }),
    namespace: optionalText,
    deletionTimestamp: optionalText,
    resourceVersion: optionalText,
    labels: optionalTexts,
    annotations: optionalTexts,
  }),
});

const bundleSchema = Type.Object(
  {
    format: Type.Literal(format),
    version: Type.Literal(version),
    /** Names and addresses have been replaced. */
    anonymized: Type.Boolean(),
    cloudProvider: Type.String(),
    /** Flags of the host that decide what it does, without those that name files, ports or identities. */
    flags: Type.Array(Type.String({ pattern: "^--[a-z][a-z0-9-]*=" })),
    cloudConfig: documentSchema,
    kinds: Type.Array(
      Type.Object({
        group: Type.String(),
        version: Type.String({ minLength: 1 }),
        plural: Type.String({ minLength: 1 }),
        kind: Type.String({ minLength: 1 }),
        namespaced: Type.Boolean(),
        objects: Type.Array(objectSchema),
      }),
    ),
    /** As the cloud returned them. */
    resources: Type.Array(Type.Object({ id: Type.String({ minLength: 1 }) }, { additionalProperties: true })),
  },
  { additionalProperties: false },
);

/** Everything that a plan has read, so that the plan can be made again. Contains no secrets. */
export type Bundle = Static<typeof bundleSchema>;

export const bundleHead = { format, version } as const;

/** Writes a file that only its owner can read: it describes a cluster. Throws with the flag that named it. */
export async function writeBundle(path: string, bundle: Bundle): Promise<void> {
  try {
    await using file = await open(path, "w", 0o600);
    // An existing file keeps its mode when it is opened.
    if ((await file.stat()).isFile()) await file.chmod(0o600);
    await file.writeFile(gzipSync(JSON.stringify(bundle)));
  } catch (cause) {
    throw new CodedError("FolderNotUsable", `--bundle=${path}: the file cannot be written`, { cause });
  }
}

/** Throws with the flag that named it and all problems, each with its path in the document. */
export async function readBundle(path: string): Promise<Bundle> {
  const content = await buffer(createReadStream(path, { end: maxBytes })).catch((cause: unknown) => {
    throw new CodedError("FileUnreadable", `--from=${path}: the file cannot be read`, { cause });
  });
  if (content.length > maxBytes) throw invalid(path, `it is larger than ${maxBytes / 2 ** 20} MiB`);
  const document = parsed(path, content);
  const { format: found, version: its } =
    typeof document === "object" && document !== null ? { ...fieldsOf(document) } : {};
  if (found !== format) throw invalid(path, "it is not a bundle; write one with: plan --bundle=FILE");
  if (typeof its === "number" && its > version)
    throw invalid(
      path,
      `it has version ${its}, and this program reads up to ${version}; use the program that wrote it`,
    );
  if (Value.Check(bundleSchema, document)) {
    refuseMachineFlags(path, document);
    return document;
  }
  const problems = [...Value.Errors(bundleSchema, document)].slice(0, 10);
  throw new ProblemsError(
    `--from=${path} is not a valid bundle`,
    problems.map(({ path: at, message }) => `${at === "" ? "/" : at}: ${message}`),
  );
}

/** A bundle may come from a stranger: it must not load plugins, or name files, on the machine that reads it. */
function refuseMachineFlags(path: string, { flags }: Bundle): void {
  const refused = flags.map((flag) => flag.slice(2, flag.indexOf("="))).filter(isMachineFlag);
  if (refused.length === 0) return;
  const names = refused.map((name) => `--${name}`).join(", ");
  throw invalid(
    path,
    `it sets ${names}, which may only be set on the command line; remove it from the flags of the bundle`,
  );
}

function parsed(path: string, content: Uint8Array): unknown {
  try {
    const text = isGzip(content) ? gunzipSync(content, { maxOutputLength: maxBytes }) : content;
    return JSON.parse(new TextDecoder().decode(text));
  } catch (error) {
    throw invalid(path, `it is truncated or damaged: ${messageOf(error)}`);
  }
}

/** False for a document that was unpacked for editing, which is valid as well. */
const isGzip = ([first, second]: Uint8Array): boolean => first === 0x1f && second === 0x8b;

const fieldsOf = (document: object): { readonly format?: unknown; readonly version?: unknown } => document;

const invalid = (path: string, problem: string): CodedError =>
  new CodedError("InvalidBundle", `--from=${path}: ${problem}`);
