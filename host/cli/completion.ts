import { CodedError } from "cloud-controller-host/sdk";

const program = "cloud-controller-host";

export const completionUsage = `Usage: ${program} completion bash|zsh|fish

Prints a completion script. For the shell that runs:

  source <(${program} completion bash)
  source <(${program} completion zsh)
  ${program} completion fish | source
`;

interface Words {
  readonly commands: readonly string[];
  /** With their dashes. */
  readonly flags: readonly string[];
}

const shells: Readonly<Record<string, (words: Words) => string>> = {
  bash: ({ commands, flags }) => `_cloud_controller_host() {
  local word="\${COMP_WORDS[COMP_CWORD]}"
  if [[ "$word" == -* ]]; then
    COMPREPLY=($(compgen -W "${flags.join(" ")}" -- "$word"))
  elif [[ "$COMP_CWORD" == 1 ]]; then
    COMPREPLY=($(compgen -W "${commands.join(" ")}" -- "$word"))
  else
    COMPREPLY=($(compgen -f -- "$word"))
  fi
}
complete -F _cloud_controller_host ${program}
`,
  zsh: ({ commands, flags }) => `#compdef ${program}
_cloud_controller_host() {
  if [[ "$PREFIX" == -* ]]; then
    compadd -- ${flags.join(" ")}
  elif (( CURRENT == 2 )); then
    compadd -- ${commands.join(" ")}
  else
    _files
  fi
}
compdef _cloud_controller_host ${program}
`,
  fish: ({ commands, flags }) =>
    [
      `complete -c ${program} -n __fish_use_subcommand -f -a "${commands.join(" ")}"`,
      ...flags.map((flag) => `complete -c ${program} -l ${flag.slice(2)}`),
      "",
    ].join("\n"),
};

/** The completion script of a shell for commands and flags (without dashes). Throws `InvalidArgument`. */
export function completion(shell: string, commands: readonly string[], flags: readonly string[]): string {
  const script = Object.hasOwn(shells, shell) ? shells[shell] : undefined;
  if (script === undefined) {
    const problem = shell === "" ? "no shell given" : `unknown shell "${shell}"`;
    throw new CodedError("InvalidArgument", `${problem}: use completion ${Object.keys(shells).join("|")}`);
  }
  return script({ commands, flags: flags.map((name) => `--${name}`).toSorted() });
}
