import { type ConfigKey, configKeys } from "../../host/cli/config-keys.ts";
import { configSections } from "../../plugins/azure-cloud/config/schema.ts";
import { code, heading, table } from "./markdown.ts";

const head = `${heading("Azure cloud config", "the table in `config/schema.ts`")}
- The config is YAML or JSON, from \`--cloud-config\` or from a Secret (\`--cloud-config-secret-name\`), read alike.
- Keys match in any case. Unknown keys are ignored with a warning that suggests the key that was probably meant.
- YAML is read as Go reads it: \`yes\` and \`on\` are booleans; the last value of a duplicate key applies, with a warning.
- \`null\` is the default, and so is 0 for the TTL of a cache and wherever 0 would make no sense, as upstream. Numbers and booleans are accepted for strings. Words such as \`standard\` match in any case.
- Durations are integers in seconds. Resource group names default to \`resourceGroup\`, which is lower-cased.
- \`AZURE_TENANT_ID\`, \`AZURE_CLIENT_ID\`, \`AZURE_CLIENT_SECRET\` and \`AZURE_FEDERATED_TOKEN_FILE\` override their keys.
- \`cloud-controller-host check-config --cloud-config=FILE\` prints all problems and warnings without a cluster.
`;

const cellsOf = ({ path, type, words, fallback, description }: ConfigKey): readonly string[] => [
  code(path),
  words.length > 0 ? words.map((word) => code(word)).join(", ") : type,
  code(fallback),
  description,
];

/** Every key of the cloud config. */
export function config(): string {
  const sections = Object.entries(configSections).map(([title, keys]) => {
    const rows = configKeys({ properties: keys }).map(cellsOf);
    return `\n## ${title}\n\n${table(["Key", "Type", "Default", "Description"], rows)}\n`;
  });
  return `${head}${sections.join("")}`;
}
