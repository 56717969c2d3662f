/** The entry `cloud-controller-host/sandbox`: API server, sandbox and controller harness, for tests of plugins. */
import { CodedError } from "cloud-controller-host/sdk";

import { readCommand } from "./cli/command.ts";
import { complete } from "./config/validate/complete.ts";
import { enabledPlugins } from "./generation/plugins/enabled.ts";
import type { LoadedPlugins, PluginLoader, PluginSet } from "./generation/plugins/load.ts";
import { startHost } from "./host.ts";
import { hostPermissions, serviceAccountGrants } from "./run/permissions.ts";
import type { HostInput } from "./run/process-parts.ts";
import type { Origin } from "./sandbox/failing-work.ts";
import type { Declared, PrepareHost } from "./sandbox/launcher.ts";
import { openSandbox as open, type Sandbox, type SandboxOptions } from "./sandbox/open.ts";

export {
  type ApiServerOptions,
  type Fault,
  type FaultEffect,
  type Faults,
  type RecordedRequest,
  type RequestLog,
  type RequestMatch,
  SandboxApiServer,
} from "cloud-controller-host/sdk/testing/api-server";
export type { Sandbox, SandboxOptions } from "./sandbox/open.ts";
export { TestCluster } from "./sandbox/testing/cluster.ts";
export type { RunningController, TestGeneration } from "./sandbox/testing/generation.ts";
export { controllerHarness } from "./sandbox/testing/harness.ts";
export type { RunOptions } from "./sandbox/testing/runner.ts";
export type { SentMatch, SentRequest } from "./sandbox/testing/sent.ts";

/** Prepares this package's host for the sandbox, which knows hosts only by an interface. */
export const prepareHost: PrepareHost = async (argv, environment) => {
  const problems: string[] = [];
  const report = (text: string): void => void problems.push(text.trim().replace(/^Error: /u, ""));
  const input = await readCommand(argv, { environment, stdout: report, stderr: report, width: 100 });
  if ("status" in input) throw new CodedError("InvalidFlags", problems.join("\n"));
  const { cloudConfig, cloudProvider } = input.options;
  const originOf: Origin = (error) => {
    const { at } = input.copies.locate(error);
    return at === undefined ? "" : ` at ${at}`;
  };
  return {
    cloudConfig,
    cloudProvider,
    cloud: input.plugins.clouds.find(({ name }) => name === cloudProvider),
    declared: declaredBy(input, input.plugins),
    originOf,
    start({ writeLog, reloaded, failingWork }) {
      const watched = (plugins: LoadedPlugins): LoadedPlugins => ({
        ...plugins,
        controllers: plugins.controllers.map((controller) =>
          plugins.thirdParty.has(controller.name) ? failingWork.watch(controller, originOf) : controller,
        ),
      });
      const loader: PluginLoader = {
        hash: () => input.loader.hash(),
        async load(request) {
          const loaded = await input.loader.load(request);
          if (!loaded.ok) return loaded;
          reloaded(declaredBy(input, loaded.plugins));
          return { ...loaded, plugins: watched(loaded.plugins) };
        },
      };
      return startHost({ ...input, plugins: watched(input.plugins), loader, writeLog });
    },
  };
};

function declaredBy({ options, migrations }: HostInput, plugins: PluginSet): Declared {
  const accounts = serviceAccountGrants(options, plugins);
  const own = hostPermissions(options, migrations, options.useServiceAccountCredentials ? accounts : []);
  return {
    kinds: plugins.controllers.flatMap(({ kinds = [] }) => kinds),
    permissions: new Map([["", own], ...accounts.map(({ name, permissions }) => [name, permissions] as const)]),
    webhooks: complete(options).featureEnabled("CloudControllerManagerWebhook")
      ? enabledPlugins(options, plugins).webhooks
      : [],
    webhookPort: options.webhookSecurePort,
  };
}

/** Starts an API server, a simulated cloud and a host in this process. For tests. */
export const openSandbox = (options: SandboxOptions = {}): Promise<Sandbox> => open(prepareHost, options);
