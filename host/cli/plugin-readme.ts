/** Commands that run a new plugin in the sandbox, by kind; their working directory is its folder. */
export const sandboxSteps: Readonly<Record<string, (name: string, bun: string) => readonly string[]>> = {
  controller: (_name, bun) => [sandboxCommand(bun, "", "")],
  cloud: (name, bun) => [
    `echo '{"instances": {"node-0": {"internalIP": "10.0.0.1"}}}' > cloud.json`,
    sandboxCommand(bun, " --nodes=1", ` --cloud-provider=${name} --cloud-config=cloud.json`),
  ],
  webhook: (name, bun) => [
    sandboxCommand(bun, "", ` --webhooks=${name} --feature-gates=CloudControllerManagerWebhook=true`),
  ],
};

const sandboxCommand = (bun: string, options: string, flags: string): string =>
  `${bun} x --no-install cloud-controller-host sandbox${options} -- --plugin-dir=..${flags}`;

const notes: Readonly<Record<string, (name: string) => string>> = {
  controller: (
    name,
  ) => `\`kill -HUP\` (or the key \`r\` in the sandbox) swaps in a changed source. \`--controllers=*,-${name}\` turns it off.
In production, put this folder into the image and pass \`--plugin-dir\` with its parent. \`cloud-controller-host rbac --plugin-dir=..\`
prints the roles from \`permissions\`.`,
  cloud: () => "With a `simulate` in the plugin, the sandbox can create and delete VMs.",
  webhook: (name) =>
    `The sandbox's API server calls the webhook; a cluster does once its ValidatingWebhookConfiguration exists, which
\`cloud-controller-host rbac --plugin-dir=.. --webhooks=${name}\` prints.`,
};

export const pluginReadme = (kind: string, name: string): string => `# ${name}

A ${kind} plugin for cloud-controller-host. Without Bun on the PATH, type \`npx -y bun@${Bun.version}\` in place of \`bun\`.

\`\`\`sh
bun install      # not needed when cloud-controller-host is installed in a parent folder
bun check        # types
bun test         # its own test and the conformance suite
\`\`\`

Run it in the sandbox:

\`\`\`sh
${(sandboxSteps[kind]?.(name, "bun") ?? []).join("\n")}
\`\`\`

${notes[kind]?.(name) ?? ""}

A plugin runs inside the host's process with the host's privileges.
`;
