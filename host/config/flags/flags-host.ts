import { second } from "../values/durations.ts";
import { labelSelectorProblem, noBlankItem, oneOf, positive } from "./checks.ts";
import { bool, duration, int, level, quantity, string, strings, version, vmodule } from "./flag-types.ts";
import { flag } from "./flag.ts";

const azure = { from: "azure" } as const;
const ours = { from: "ours" } as const;

export const reloadingFlags = {
  "enable-dynamic-reloading": flag(
    bool,
    false,
    "Watches the cloud config, file or Secret, and restarts the controllers with a new config without releasing the lease.",
    azure,
  ),
  "cloud-config-secret-name": flag(
    string,
    "azure-cloud-provider",
    "Secret with the cloud config, used when --cloud-config is empty. The Go binary documents this default but does not apply it.",
    azure,
  ),
  "cloud-config-secret-namespace": flag(string, "kube-system", "Namespace of --cloud-config-secret-name.", azure),
  "cloud-config-key": flag(
    string,
    "cloud-config",
    "Key in --cloud-config-secret-name that holds the cloud config.",
    azure,
  ),
  "generation-drain-timeout": flag(
    duration,
    30 * second,
    "Time limit for controllers to finish their work on a reload or shutdown. After it their writes are refused.",
    { ...ours, check: positive },
  ),
};

export const shadowFlags = {
  shadow: flag(
    bool,
    false,
    "Compares with another manager in place of managing: takes no lease, writes nothing, and plans after each change what it would write. /statusz lists the differences.",
    ours,
  ),
  "shadow-settle": flag(
    duration,
    60 * second,
    "With --shadow: how long the other manager has for a change before it counts as a difference.",
    { ...ours, check: positive },
  ),
};

export const pluginFlags = {
  "plugin-dir": flag(
    strings,
    [],
    "Directory of plugin folders, each with a plugin.ts. May be repeated. Plugins run in-process with this process's privileges; load only trusted code.",
    { ...ours, check: noBlankItem },
  ),
  "plugin-lock": flag(
    string,
    "",
    "File with version and SHA-256 of each third-party plugin; one that is missing, changed or not listed is refused. Write it with: plugins lock.",
    ours,
  ),
  "watch-plugins": flag(bool, false, "Reloads when a file in a --plugin-dir changes.", ours),
  "plugin-failure-policy": flag(
    string,
    "skip",
    "What to do with a plugin from a --plugin-dir that fails to import, initialize or run while no earlier generation can run instead: skip (report it and continue without it; a controller whose run failed is tried again with a backoff) or exit.",
    { ...ours, check: oneOf("skip", "exit") },
  ),
  "plugin-init-timeout": flag(duration, 30 * second, "Time limit for importing, creating and initializing a plugin.", {
    ...ours,
    check: positive,
  }),
};

export const miscFlags = {
  master: flag(string, "", "URL of the API server; overrides the kubeconfig."),
  kubeconfig: flag(
    string,
    "",
    "Path to a kubeconfig with the API server's address and credentials. If empty, the Pod's service account is used.",
  ),
};

export const nodeFilterFlags = {
  "node-filter-requirements": flag(
    string,
    "",
    "Label selector for the nodes to manage; applies to Nodes only. The Go binary filters Services and other objects by it too.",
    { ...azure, check: labelSelectorProblem },
  ),
};

const alpha =
  "Not supported: this program writes all severities to one unbuffered stream. Only the default is accepted.";
const onlyDefault = (isDefault: boolean): string | undefined =>
  isDefault ? undefined : "is not supported by this program; remove the flag";
const splitStream = { from: "upstream", hidden: true, check: (on: boolean) => onlyDefault(!on) } as const;
const bufferSize = { from: "upstream", hidden: true, check: (bytes: number) => onlyDefault(bytes === 0) } as const;

export const logFlags = {
  "log-flush-frequency": flag(
    duration,
    5 * second,
    "Accepted without effect: log lines are written at once, and the log is flushed at shutdown.",
    {
      check: positive,
      notice: (ms) => (ms === 5 * second ? undefined : "is accepted without effect: log lines are written at once"),
    },
  ),
  "log-format": flag(string, "text", "Same as --logging-format; JSON is used if either flag selects it.", {
    ...azure,
    check: oneOf("text", "json"),
  }),
  "logging-format": flag(string, "text", "Log format: text (to stderr) or json (to stdout, one object per line).", {
    from: "upstream",
    check: oneOf("text", "json"),
  }),
  "log-text-split-stream": flag(bool, false, alpha, splitStream),
  "log-text-info-buffer-size": flag(quantity, 0, alpha, bufferSize),
  "log-json-split-stream": flag(bool, false, alpha, splitStream),
  "log-json-info-buffer-size": flag(quantity, 0, alpha, bufferSize),
  v: flag(
    level,
    0,
    "Log verbosity. At 1 and above all flags are logged at startup, at 4 and above errors include stack traces.",
    {
      shorthand: "v",
    },
  ),
  vmodule: flag(
    vmodule,
    "",
    "Comma-separated list of pattern=N settings for the verbosity of single controllers or components. Text format only.",
  ),
};

const noLimit = (count: number): string | undefined =>
  count >= 0 ? undefined : `cannot be negative, got ${count}; 0 means no limit`;

export const auditFlags = {
  "audit-log-path": flag(
    string,
    "",
    "File for one JSON line per write to the cloud and to Kubernetes: time, controller, resource, causes, changed fields, outcome. - is stdout. If empty, only /statusz/writes has them.",
    ours,
  ),
  "audit-log-maxage": flag(int, 0, "Days to keep rotated files of --audit-log-path; 0 keeps them however old.", {
    ...ours,
    check: noLimit,
  }),
  "audit-log-maxbackup": flag(int, 10, "Number of rotated files of --audit-log-path to keep; 0 keeps all.", {
    ...ours,
    check: noLimit,
  }),
  "audit-log-maxsize": flag(int, 100, "Megabytes at which --audit-log-path is rotated; 0 never rotates it.", {
    ...ours,
    check: noLimit,
  }),
};

export const globalFlags = {
  help: flag(bool, false, "Prints this help.", { shorthand: "h" }),
  version: flag(
    version,
    "false",
    "Prints the version and exits; --version=raw prints build details as JSON; --version=vX.Y.Z… overrides the reported version.",
  ),
};
