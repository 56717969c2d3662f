import type { Static, TObject } from "@sinclair/typebox";

import type { Cloud, CloudSimulator, Explanation, SimulateOptions } from "./cloud.ts";
import { type CompletedConfig, decode, type Decoded } from "./config.ts";
import type { CloudContext, ControllerContext } from "./context.ts";
import type { KindRef } from "./kinds.ts";
import { assertName } from "./names.ts";
import type { OperatorWarning } from "./warning.ts";
import type { WebhookPlugin } from "./webhook.ts";

/**
 * The life of a plugin, once per generation:
 *
 * 1. **import**: the host imports `plugin.ts`, with a time limit. The module has no side effects.
 * 2. **decode**: `configSchema` or `decode` reads options or the cloud config and reports every problem at once.
 * 3. **construct**: `construct` is pure; a cloud's `create` may read, never write.
 * 4. **init**: the init function registers informers and returns a controller, with a time limit.
 * 5. **run**: called when the informers have synced and the previous generation has stopped writing.
 * 6. **drain**: the signal aborts, `run` resolves, the fence closes and a cloud is disposed of.
 *
 * When one of the first four steps fails, the previous generation continues.
 */

/** The work of one controller. **`run` resolves only when all its work has stopped**, which makes a swap safe. */
export interface Controller {
  run(signal: AbortSignal): Promise<void>;
  /**
   * Work of every replica, leader or not: serving, exporting metrics, warming a cache. Starts when the generation stands
   * by or runs, and ends when it is replaced; the rule of `run` applies. It may read; its writes are refused until this
   * replica leads. A failure is logged and retried, and does not affect `run`.
   */
  everyReplica?(signal: AbortSignal): Promise<void>;
  /** Throws or rejects with the reason when unhealthy. Without it the controller is healthy while it runs. */
  check?(): void | Promise<void>;
  /**
   * Conditions that need an operator while the controller itself works as intended, for `/statusz`. They do not make
   * `/healthz` fail: a restart would not help.
   */
  warnings?(): readonly OperatorWarning[];
  /** Sections for the console. Called often: must not read or wait. No secrets. */
  status?(): readonly Explanation[];
}

/** The reason why a controller does not run in this generation; not an error. */
export interface Skipped {
  /** `--flag is false` is the operator's choice. Any other reason is a warning in the log and the console. */
  readonly skipped: string;
  /**
   * Runs in place of the controller once its informers have synced, under the rule of `Controller.run`: for example to
   * record events on objects that the controller would have served. The controller still counts as skipped in `/statusz`, `/healthz` and metrics.
   */
  readonly run?: (signal: AbortSignal) => Promise<void>;
}
/** Returned by an init function in place of a controller: it does not run, for a reason that `/statusz` shows. */
export const skipped = (reason: string, run?: Skipped["run"]): Skipped => ({
  skipped: reason,
  ...(run !== undefined && { run }),
});

/** upstream: `app.ControllerInitContext`. `clientName` is the user agent and, on request, the service account. */
export interface ControllerInitContext {
  readonly clientName: string;
}

/** upstream: `app.InitFunc`. Registers handlers and returns the controller; starts nothing and writes nothing. */
export type InitFunc = (context: ControllerContext) => Controller | Skipped | Promise<Controller | Skipped>;

/** upstream: `app.InitFuncConstructor`. Pure. */
export type InitFuncConstructor<Own = unknown> = (
  initContext: ControllerInitContext,
  completedConfig: CompletedConfig<Own>,
  cloud: Cloud,
) => InitFunc;

/** upstream: `app.ControllerInitFuncConstructor`: a constructor and the context that it is called with. */
export interface ControllerInitFuncConstructor {
  readonly initContext: ControllerInitContext;
  readonly constructor: InitFuncConstructor;
}

/** The verbs of the API, and those of RBAC for special resources. */
export const permissionVerbs = [
  "get",
  "list",
  "watch",
  "create",
  "update",
  "patch",
  "delete",
  "deletecollection",
  "approve",
  "bind",
  "escalate",
  "impersonate",
  "sign",
  "use",
] as const;

/** A verb of the API server; a misspelled one does not compile. */
export type PermissionVerb = (typeof permissionVerbs)[number];

/** One RBAC rule that the plugin needs; manifests are generated from these. */
export interface Permission {
  /** Empty for the core group. */
  readonly apiGroup: string;
  /** Plural names, such as `nodes`, or `nodes/status` for a subresource. */
  readonly resources: readonly string[];
  readonly verbs: readonly PermissionVerb[];
  readonly resourceNames?: readonly string[];
  /** Set for a Role in that namespace; otherwise the rule belongs to a ClusterRole. */
  readonly namespace?: string;
}

/** The argument of `defineController`. */
export interface ControllerSpec<Schema extends TObject> {
  /** Canonical name: lower-case words joined by hyphens, ending in `-controller` for new controllers. */
  readonly name: string;
  readonly aliases?: readonly string[];
  readonly initContext?: ControllerInitContext;
  /** Default true: `*` in `--controllers` enables it. */
  readonly enabledByDefault?: boolean;
  /** Schema of its options: each property becomes a flag `--<name>-<property in kebab-case>`, of an object as JSON. */
  readonly configSchema?: Schema;
  readonly permissions?: readonly Permission[];
  /** Custom kinds from `defineKind` that it works on: the sandbox and the test harness serve them. */
  readonly kinds?: readonly KindRef[];
  readonly construct: InitFuncConstructor<Static<Schema>>;
}

/** A controller plugin's default export. */
export interface ControllerPlugin {
  readonly kind: "controller";
  readonly name: string;
  readonly aliases: readonly string[];
  readonly initContext: ControllerInitContext;
  readonly enabledByDefault: boolean;
  readonly configSchema: TObject | undefined;
  readonly permissions: readonly Permission[];
  readonly kinds?: readonly KindRef[];
  /** Decodes its options and applies them to the constructor. */
  bind(own: unknown): Decoded<(config: Omit<CompletedConfig, "own">, cloud: Cloud) => InitFunc>;
}

/** Declares a controller plugin. Make it the default export of the folder's `plugin.ts`. */
export function defineController<Schema extends TObject>(spec: ControllerSpec<Schema>): ControllerPlugin {
  assertName(spec.name);
  const initContext = spec.initContext ?? { clientName: spec.name };
  const { configSchema, construct } = spec;
  return {
    kind: "controller",
    name: spec.name,
    aliases: spec.aliases ?? [],
    initContext,
    enabledByDefault: spec.enabledByDefault ?? true,
    configSchema,
    permissions: spec.permissions ?? [],
    kinds: spec.kinds ?? [],
    bind(own) {
      const decoded = decodeOwn(configSchema, own);
      if (!decoded.ok) return decoded;
      return {
        ...decoded,
        value: (config, cloud) => {
          const init: unknown = construct(initContext, { ...config, own: decoded.value }, cloud);
          if (isInit(init)) return init;
          throw new TypeError("construct must return the init function: construct: () => (context) => ({ run })");
        },
      };
    },
  };
}

const isInit = (value: unknown): value is InitFunc => typeof value === "function";

function decodeOwn<Schema extends TObject>(schema: Schema | undefined, own: unknown): Decoded<Static<Schema>> {
  return schema === undefined ? { ok: true, value: {}, warnings: [] } : decode(schema, own ?? {});
}

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

/** The default export of a `plugin.ts`. */
export type Plugin = ControllerPlugin | CloudPlugin | WebhookPlugin;
