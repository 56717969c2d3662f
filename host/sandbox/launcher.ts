import type { CloudPlugin, Environment, KindRef, Permission, WebhookPlugin } from "cloud-controller-host/sdk";

import type { ReloadStatus } from "../generation/report/reload-status.ts";
import type { FailingWork, Origin } from "./failing-work.ts";

/** The part of a running host that the sandbox uses. */
export interface SandboxHost {
  /** Base URL of the secure port; undefined with `--secure-port=0`. */
  readonly url: string | undefined;
  readonly status: {
    readonly identity: string;
    readonly leading: boolean;
    readonly leader: string;
    readonly generation: number;
    readonly running: boolean;
    readonly disabled: boolean;
    readonly configHash: string | undefined;
  } & Pick<
    ReloadStatus,
    "lastOutcome" | "lastRefusal" | "lastRollback" | "refusedPlugins" | "waitingFor" | "lastOverdueDrain"
  >;
  /** Exit status: 0 after `stop`, otherwise not 0. */
  readonly finished: Promise<number>;
  /** The error that ended the host, once one has. */
  readonly failure: string | undefined;
  /** Logs and counts a rejection or an exception that no code has handled. */
  unhandled(error: unknown): void;
  reload(reason: string): void;
  stop(): void;
}

/** Declarations of the plugins of a host. */
export interface Declared {
  /** Custom kinds. */
  readonly kinds: readonly KindRef[];
  /** Permissions by the client name of the requests; `""` has those of the host itself. */
  readonly permissions: ReadonlyMap<string, readonly Permission[]>;
  /** The webhooks that are served, and their port. */
  readonly webhooks: readonly WebhookPlugin[];
  readonly webhookPort: number;
}

/** Reports of a host to its sandbox. */
export interface HostHooks {
  readonly writeLog: (line: string) => void;
  /** Receives the declarations of the plugins of a later load, before they run. */
  readonly reloaded: (declared: Declared) => void;
  /** Receives failures of third-party controllers. */
  readonly failingWork: FailingWork;
}

/** A host whose command line has been accepted. */
export interface PreparedHost {
  /** The plugin that `--cloud-provider` names. */
  readonly cloud: CloudPlugin | undefined;
  readonly cloudProvider: string;
  /** The path in `--cloud-config`. */
  readonly cloudConfig: string;
  readonly declared: Declared;
  readonly originOf: Origin;
  start(hooks: HostHooks): Promise<SandboxHost>;
}

/** Parses the host's command line. Throws `InvalidFlags` with all problems when it is refused. */
export type PrepareHost = (argv: readonly string[], environment: Environment) => Promise<PreparedHost>;
