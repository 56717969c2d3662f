import type { TObject } from "@sinclair/typebox";

import type { Cloud, CloudSimulator, SimulateOptions } from "./cloud.ts";
import type { Decoded } from "./config.ts";
import type { CloudContext } from "./context.ts";
import { assertName } from "./names.ts";
import type { Permission } from "./permissions.ts";

/** The argument of `defineCloud`. */
export interface CloudSpec<Config> {
  /** The value of `--cloud-provider`. */
  readonly name: string;
  /** Schema of the config document, for the reference page. */
  readonly configSchema: TObject;
  readonly permissions?: readonly Permission[];
  /**
   * Decodes the parsed config document; pure, with the process's variables in `environment`. Reports every problem at
   * once. No problem or warning contains a secret.
   */
  decode(document: Readonly<Record<string, unknown>>, environment: Environment): Decoded<Config>;
  /** Creates the cloud. It may read, never write. */
  create(config: Config, context: CloudContext): Promise<Cloud>;
  /**
   * Checks the credentials without a cluster, for `check-credentials`: gets a token, reads what controllers will read,
   * and reports for each permission that they need whether it is granted. Sends no write.
   */
  checkAccess?(config: Config, context: AccessContext): Promise<readonly AccessResult[]>;
  /**
   * The part of the config that decides where resources are and what they are called, as JSON. When it changes with a
   * reload, the host asks the new cloud for `unrequestedRemovals`, and refuses the reload if there are any. Pure.
   */
  placement?(config: Config): unknown;
  /** Every annotation of Services that the cloud reads, for `help annotations`. */
  annotations?(): Promise<readonly AnnotationHelp[]>;
  /** True if the cloud honors `planning` of its context. Otherwise a plan lists the calls that would write. */
  readonly plans?: true;
  /** Starts a simulation of the cloud for the sandbox, with a cloud config that reaches it. */
  simulate?(options: SimulateOptions): Promise<CloudSimulator>;
}

/** Help text of a Service annotation. */
export interface AnnotationHelp {
  /** The full key; `<port>` in it stands for a port number of the Service. */
  readonly key: string;
  /** Valid values. */
  readonly values: string;
  /** Value that applies without the annotation; empty if there is none. */
  readonly fallback: string;
  /** The setting that it changes, in sentences. */
  readonly effect: string;
  /** Consequence of an invalid value. */
  readonly invalid: string;
}

/** Context of `checkAccess` of a cloud, which `check-credentials` calls without a cluster. */
export type AccessContext = Pick<CloudContext, "clock" | "log" | "signal">;

/** The outcome for one read or permission. `missing`: it does not exist. `unknown`: the cloud did not answer. */
export interface AccessResult {
  /** The read or permission, such as `Microsoft.Network/loadBalancers/write on resource group rg`. */
  readonly subject: string;
  readonly outcome: "allowed" | "denied" | "missing" | "unknown";
  /** The reason of an outcome other than `allowed`, in one line without secrets. */
  readonly detail?: string;
  /** The correction, in one line. Results with the same text have one cause and are reported as one problem. */
  readonly cause?: string;
}

/** Environment variables by their names. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** A cloud plugin's default export. */
export interface CloudPlugin {
  readonly kind: "cloud";
  readonly name: string;
  readonly configSchema: TObject;
  readonly permissions: readonly Permission[];
  bind(
    document: Readonly<Record<string, unknown>>,
    environment: Environment,
  ): Decoded<(context: CloudContext) => Promise<Cloud>>;
  /** Decodes the config for `check-credentials`; undefined where the cloud has no such check. */
  bindAccessCheck(
    document: Readonly<Record<string, unknown>>,
    environment: Environment,
  ): Decoded<((context: AccessContext) => Promise<readonly AccessResult[]>) | undefined>;
  /** JSON of the part of a valid config that places resources; undefined where the cloud has no such part. */
  placementOf?(document: Readonly<Record<string, unknown>>, environment: Environment): string | undefined;
  readonly annotations: (() => Promise<readonly AnnotationHelp[]>) | undefined;
  readonly plans: boolean;
  readonly simulate: ((options: SimulateOptions) => Promise<CloudSimulator>) | undefined;
}

/** Declares a cloud plugin. Make it the default export of the folder's `plugin.ts`. */
export function defineCloud<Config>(spec: CloudSpec<Config>): CloudPlugin {
  assertName(spec.name);
  return {
    kind: "cloud",
    name: spec.name,
    configSchema: spec.configSchema,
    permissions: spec.permissions ?? [],
    bind(document, environment) {
      const decoded = spec.decode(document, environment);
      return decoded.ok ? { ...decoded, value: (context) => spec.create(decoded.value, context) } : decoded;
    },
    bindAccessCheck(document, environment) {
      const decoded = spec.decode(document, environment);
      if (!decoded.ok) return decoded;
      const checkAccess = spec.checkAccess?.bind(spec, decoded.value);
      return { ...decoded, value: checkAccess };
    },
    placementOf(document, environment) {
      const decoded = spec.decode(document, environment);
      return decoded.ok && spec.placement !== undefined ? JSON.stringify(spec.placement(decoded.value)) : undefined;
    },
    annotations: spec.annotations?.bind(spec),
    plans: spec.plans ?? false,
    simulate: spec.simulate?.bind(spec),
  };
}
