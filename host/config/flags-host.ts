import { labelSelectorProblem, noBlankItem, oneOf, positive } from "./checks.ts";
import { second } from "./durations.ts";
import { bool, duration, level, quantity, string, strings, version, vmodule } from "./flag-types.ts";
import { flag } from "./flag.ts";

const azure = { from: "azure" } as const;
const ours = { from: "ours" } as const;

export const reloadingFlags = {
  "enable-dynamic-reloading": flag(
    bool,
    false,
    "Follows the cloud config, file or Secret, and starts the controllers afresh when its content changes, without giving up the lease.",
    azure,
  ),
  "cloud-config-secret-name": flag(
    string,
    "azure-cloud-provider",
    "Secret with the cloud config, read when --cloud-config is empty. The Go binary means this default too, but loses it.",
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
    "How long the old controllers may finish their work on a reload or a stop before their writes are cut off.",
    { ...ours, check: positive },
  ),
};

export const pluginFlags = {
  "plugin-dir": flag(
    strings,
    [],
    "Folder that holds plugin folders, each with a plugin.ts. May be repeated. A plugin runs inside this process and may do all that it may: load only code that you trust.",
    { ...ours, check: noBlankItem },
  ),
  "watch-plugins": flag(bool, false, "Reloads when a file under a --plugin-dir changes.", ours),
  "plugin-init-timeout": flag(duration, 30 * second, "How long a plugin may take to load and to start.", {
    ...ours,
    check: positive,
  }),
};

export const miscFlags = {
  master: flag(string, "", "URL of the API server; counts before the one in the kubeconfig."),
  kubeconfig: flag(
    string,
    "",
    "kubeconfig with the API server and the credentials for it. Empty: the service account of the pod.",
  ),
};

export const nodeFilterFlags = {
  "node-filter-requirements": flag(
    string,
    "",
    "Label selector of the nodes that this process cares for. It applies to nodes and nothing else; the Go binary hides Services without the label too.",
    { ...azure, check: labelSelectorProblem },
  ),
};

const alpha = "Needs a stream of its own per severity, which this program does not have: only the default is accepted.";
const onlyDefault = (isDefault: boolean): string | undefined =>
  isDefault ? undefined : "is not offered by this program; remove the flag";
const splitStream = { from: "upstream", hidden: true, check: (on: boolean) => onlyDefault(!on) } as const;
const bufferSize = { from: "upstream", hidden: true, check: (bytes: number) => onlyDefault(bytes === 0) } as const;

export const logFlags = {
  "log-flush-frequency": flag(duration, 5 * second, "How long log lines may wait before they are written.", {
    check: positive,
  }),
  "log-format": flag(string, "text", "The same as --logging-format; JSON is written when either says so.", {
    ...azure,
    check: oneOf("text", "json"),
  }),
  "logging-format": flag(string, "text", "Form of the log: text (to stderr) or json (to stdout, one object a line).", {
    from: "upstream",
    check: oneOf("text", "json"),
  }),
  "log-text-split-stream": flag(bool, false, alpha, splitStream),
  "log-text-info-buffer-size": flag(quantity, 0, alpha, bufferSize),
  "log-json-split-stream": flag(bool, false, alpha, splitStream),
  "log-json-info-buffer-size": flag(quantity, 0, alpha, bufferSize),
  v: flag(level, 0, "How much to log. From 1 on every flag is logged at the start, from 4 on errors carry stacks.", {
    shorthand: "v",
  }),
  vmodule: flag(vmodule, "", "Verbosities for some sources, as pattern=N separated by commas. Text form only."),
};

export const globalFlags = {
  help: flag(bool, false, "Prints this text.", { shorthand: "h" }),
  version: flag(
    version,
    "false",
    "Prints the version; --version=raw prints all that is known of it; --version=vX.Y.Z… has that version reported.",
  ),
};
