import { type CloudFault, CodedError, keyOf, kinds } from "cloud-controller-host/sdk";

import { parseDuration } from "../config/values/durations.ts";
import type { Sandbox } from "./open.ts";

/** Something that can be done to the simulated VMs and their cloud, by a key or by a subcommand. */
export interface SandboxAction {
  readonly key: string;
  readonly command: string;
  /** The optional arguments in the help text. */
  readonly argument: string;
  readonly help: string;
  /** True if the screen prints the outcome as a change of the host, as for any other trigger. */
  readonly isWatched?: true;
  /**
   * Returns what was done or is shown; `later` prints a sentence when it is over. Throws a `CodedError` when it is not
   * possible.
   */
  run(sandbox: Sandbox, argument: string, later: (sentence: string) => void): Promise<string>;
}

export const unsupported = (command: string): CodedError =>
  new CodedError("NotSimulated", `${command}: this cloud plugin's simulator does not offer it, or it has no simulator`);

const defaultFault = { method: "PUT", path: "loadBalancers", status: 403 } as const;
const defaultForMs = 20_000;
const defaultDelayMs = 2000;
const maxMs = 3_600_000;

/** Shows the cloud's resources, and makes some of its requests fail or all of them slow. */
export const cloudActions: readonly SandboxAction[] = [
  {
    key: "c",
    command: "cloud show",
    argument: "service NS/NAME",
    help: "the cloud's resources, or those of a Service",
    run(sandbox, argument) {
      const { cloud } = sandbox;
      if (cloud?.show === undefined) throw unsupported("cloud show");
      const lines = argument === "" ? cloud.show() : cloud.show(serviceOf(sandbox, argument));
      return Promise.resolve(lines.length === 0 ? "The cloud has no such resources" : lines.join("\n"));
    },
  },
  {
    key: "f",
    command: "cloud fail",
    argument: "VERB PATH N",
    help: "fail requests: PUT loadBalancers 403 --for=20s",
    run({ cloud }, argument) {
      if (cloud?.fail === undefined) throw unsupported("cloud fail");
      const { words, forMs } = readWords("cloud fail", argument);
      const fault = { ...faultOf(words), forMs };
      cloud.fail(fault);
      return Promise.resolve(`${fault.method} ${fault.path} fails with ${fault.status} for ${forMs / 1000} s`);
    },
  },
  {
    key: "l",
    command: "cloud slow",
    argument: "DELAY",
    help: "delay every reply (2s), --for=20s",
    run({ cloud }, argument) {
      if (cloud?.slow === undefined) throw unsupported("cloud slow");
      const { words, forMs } = readWords("cloud slow", argument);
      const delayMs = words.length === 0 ? defaultDelayMs : durationOf("cloud slow", words.join(" "));
      cloud.slow(delayMs, forMs);
      return Promise.resolve(`Every reply of the cloud takes ${delayMs / 1000} s longer for ${forMs / 1000} s`);
    },
  },
  {
    key: "e",
    command: "cloud recover",
    argument: "",
    help: "end all failures and delays",
    run({ cloud }) {
      if (cloud?.recover === undefined) throw unsupported("cloud recover");
      cloud.recover();
      return Promise.resolve("The cloud answers as usual");
    },
  },
];

function faultOf(words: readonly string[]): Omit<CloudFault, "forMs"> {
  if (words.length === 0) return defaultFault;
  const [method = "", path = "", code = "", ...more] = words;
  const status = Number(code);
  const isKnown = ["GET", "PUT", "POST", "PATCH", "DELETE"].includes(method.toUpperCase());
  if (!isKnown || !(Number.isInteger(status) && status >= 400 && status <= 599) || more.length > 0)
    throw new CodedError(
      "InvalidArgument",
      `cloud fail ${words.join(" ")}: expected METHOD PATH STATUS, as in: cloud fail PUT loadBalancers 403 --for=40s`,
    );
  return { method: method.toUpperCase(), path, status };
}

/** The words of an argument, without `for=DURATION`. */
function readWords(command: string, argument: string): { readonly words: readonly string[]; readonly forMs: number } {
  const all = argument.split(/\s+/u).filter((word) => word !== "");
  const limits = all.filter((word) => word.startsWith("for="));
  const words = all.filter((word) => !word.startsWith("for="));
  const [limit] = limits;
  return { words, forMs: limit === undefined ? defaultForMs : durationOf(`${command} --${limit}`, limit.slice(4)) };
}

function durationOf(what: string, text: string): number {
  const parsed = parseDuration(/^\d+$/u.test(text) ? `${text}s` : text);
  if (parsed.ok && parsed.value >= 0 && parsed.value <= maxMs) return parsed.value;
  throw new CodedError("InvalidArgument", `${what}: expected a duration of at most an hour, such as 40s`);
}

function serviceOf(
  { api }: Sandbox,
  argument: string,
): { readonly uid: string; readonly addresses: readonly string[] } {
  const [word = "", name = "", ...more] = argument.split(/\s+/u);
  const services = api.list(kinds.Service).filter(({ spec }) => spec?.type === "LoadBalancer");
  const known = services.map(keyOf);
  if (word !== "service" || more.length > 0)
    throw new CodedError("InvalidArgument", `cloud show ${argument}: expected "service NAMESPACE/NAME", or nothing`);
  const service = services.find((candidate) => [name, `default/${name}`].includes(keyOf(candidate)));
  if (service === undefined) {
    const others = known.length === 0 ? "the cluster has none" : `the cluster has ${known.join(", ")}`;
    throw new CodedError("InvalidArgument", `no Service of type LoadBalancer is called "${name}"; ${others}`);
  }
  const ingress = service.status?.loadBalancer?.ingress ?? [];
  return { uid: service.metadata?.uid ?? "", addresses: ingress.flatMap(({ ip }) => ip ?? []) };
}
