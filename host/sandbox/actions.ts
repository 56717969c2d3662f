import { type CloudSimulator, CodedError, kinds } from "cloud-controller-host/sdk";

import { openBrowser } from "../console/open-browser.ts";
import type { ReloadOutcome } from "../generation/report/reload-status.ts";
import { cloudActions, type SandboxAction, unsupported } from "./cloud-actions.ts";
import { registerNode, setReady } from "./kubelet.ts";
import type { Sandbox } from "./open.ts";

const defaultSeconds = 20;
const pollMs = 20;

export const actions: readonly SandboxAction[] = [
  {
    key: "a",
    command: "vm add",
    argument: "NAME",
    help: "create a VM; its kubelet registers a node",
    async run({ api, cloud }, argument) {
      if (cloud !== undefined && argument !== "")
        throw new CodedError("InvalidArgument", "the simulated cloud names its VMs itself: leave out the name");
      const name = cloud === undefined ? argument : (await cloud.addInstances(1))[0]?.nodeName;
      if (!name)
        throw new CodedError("InvalidArgument", "this cloud has no simulator: name the VM, as in: vm add my-vm");
      registerNode(api, name);
      return `VM ${name} created and registered as a node`;
    },
  },
  powerAction("p", "vm poweroff", "stopped", "power off a VM; its node becomes NotReady"),
  powerAction("d", "vm deallocate", "deallocated", "deallocate a VM"),
  powerAction("s", "vm start", "running", "start a VM again"),
  {
    key: "x",
    command: "vm delete",
    argument: "NAME",
    help: "delete a VM; the controllers delete its node",
    async run(sandbox, argument) {
      const name = vmOf(sandbox, argument);
      await sandbox.cloud?.removeInstance(name);
      setReady(sandbox.api, name, "Unknown");
      return `VM ${name} deleted`;
    },
  },
  ...cloudActions,
  disturbAction("t", "cloud throttle", "throttled", "429 to every cloud request"),
  disturbAction("u", "cloud break", "unavailable", "503 to every cloud request"),
  {
    key: "b",
    command: "console open",
    argument: "",
    help: "open the console in a browser",
    run: ({ consoleUrl }) => Promise.resolve(openInBrowser(consoleUrl)),
  },
  {
    key: "r",
    command: "host reload",
    argument: "",
    help: "reload what has changed, as SIGHUP does",
    isWatched: true,
    run: reload,
  },
];

/** The sentence has the address too, for machines without a browser. */
function openInBrowser(url: string | undefined): string {
  if (url === undefined) return "The host has no secure port, and so no console";
  return openBrowser(url) ? `Opening the console at ${url}` : `The console is at ${url}`;
}

/** The action of a command such as `vm add`. Throws when there is none, and lists all. */
export function actionOf(command: string): SandboxAction {
  const action = actions.find((candidate) => candidate.command === command);
  if (action !== undefined) return action;
  const known = actions.map((candidate) => candidate.command).join(", ");
  throw new CodedError("InvalidArgument", `unknown command "${command}"; the commands are ${known}`);
}

const outcomeLimitMs = 30_000;
export const outcomeText: Readonly<Record<ReloadOutcome["result"], string>> = {
  reloaded: "Reloaded",
  unchanged: "Nothing to reload",
  refused: "Reload refused; the running generation continues",
  disabled: "Reloaded without a cloud provider",
  superseded: "Reload superseded by a newer one",
};

/** Requests a reload and returns its outcome. */
async function reload({ host }: Sandbox): Promise<string> {
  const before = host.status.lastOutcome;
  host.reload("sandbox");
  for (let waitedMs = 0; waitedMs < outcomeLimitMs; waitedMs += pollMs) {
    await Bun.sleep(pollMs);
    const { lastOutcome } = host.status;
    if (lastOutcome !== undefined && lastOutcome !== before)
      return `${outcomeText[lastOutcome.result]}: ${lastOutcome.reason}`;
  }
  return `Reload requested; it has not ended after ${outcomeLimitMs / 1000} s`;
}

function powerAction(
  key: string,
  command: string,
  state: "running" | "stopped" | "deallocated",
  help: string,
): SandboxAction {
  return {
    key,
    command,
    argument: "NAME",
    help,
    async run(sandbox, argument) {
      const name = vmOf(sandbox, argument);
      if (sandbox.cloud?.setPowerState === undefined) throw unsupported(command);
      await sandbox.cloud.setPowerState(name, state);
      setReady(sandbox.api, name, state === "running" ? "True" : "Unknown");
      return `VM ${name} ${state}`;
    },
  };
}

const recovered = "The cloud answers again";
/** The timer of the last disturbance of each cloud. */
const recoveries = new WeakMap<CloudSimulator, ReturnType<typeof setTimeout>>();

function disturbAction(key: string, command: string, how: "throttled" | "unavailable", help: string): SandboxAction {
  return {
    key,
    command,
    argument: "SECONDS",
    help: `${help}, for ${defaultSeconds} seconds`,
    run({ cloud }, argument, later) {
      const seconds = argument === "" ? defaultSeconds : Number(argument);
      if (!(seconds >= 0 && seconds <= 3600))
        throw new CodedError("InvalidArgument", `${command} ${argument}: expected a number from 0 to 3600`);
      if (cloud?.disturb === undefined) throw unsupported(command);
      cloud.disturb(how, seconds * 1000);
      clearTimeout(recoveries.get(cloud));
      if (seconds === 0) return Promise.resolve(recovered);
      recoveries.set(cloud, setTimeout(() => later(recovered), seconds * 1000).unref());
      return Promise.resolve(`The cloud is ${how} for ${seconds} s`);
    },
  };
}

/** The named VM, or the last one in the list of nodes. */
function vmOf({ api, cloud }: Sandbox, argument: string): string {
  if (cloud === undefined) throw unsupported("vm");
  const names = api.list(kinds.Node).map(({ metadata }) => metadata?.name ?? "");
  const name = argument === "" ? names.at(-1) : names.find((candidate) => candidate === argument);
  if (name !== undefined) return name;
  const known =
    names.length === 0
      ? "the sandbox has no nodes; create a VM with vm add"
      : `the nodes are ${names.slice(0, 20).join(", ")}`;
  throw new CodedError("InvalidArgument", argument === "" ? known : `no VM is called "${argument}"; ${known}`);
}
