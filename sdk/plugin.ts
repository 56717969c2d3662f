import type { Static, TObject } from "@sinclair/typebox";

import type { CloudPlugin } from "./cloud-plugin.ts";
import type { Cloud, Explanation } from "./cloud.ts";
import { type CompletedConfig, decode, type Decoded } from "./config.ts";
import type { ControllerContext } from "./context.ts";
import type { KindRef } from "./kinds.ts";
import { assertName } from "./names.ts";
import type { Permission } from "./permissions.ts";
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

/** The default export of a `plugin.ts`. */
export type Plugin = ControllerPlugin | CloudPlugin | WebhookPlugin;
