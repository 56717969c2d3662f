import { join } from "node:path";

import { configSections } from "../../plugins/azure-cloud/config/schema.ts";

/** The page that lists every key of the Azure cloud config. */
export const configReferencePath = join(import.meta.dir, "..", "..", "plugins", "azure-cloud", "CONFIG.md");

const head = `# Azure cloud config

Generated from the table in \`config/schema.ts\` by \`bun run reference\`; a test fails when it is out of date.

- The config is YAML or JSON, from \`--cloud-config\` or from a Secret (\`--cloud-config-secret-name\`), read alike.
- Keys match in any case. Unknown keys are ignored with a warning that suggests the key that was probably meant.
- YAML is read as Go reads it: \`yes\` and \`on\` are booleans; the last value of a duplicate key applies, with a warning.
- \`null\` is the default. Numbers and booleans are accepted for strings. Words such as \`standard\` match in any case.
- Durations are integers in seconds. Resource group names default to \`resourceGroup\`, which is lower-cased.
- \`AZURE_TENANT_ID\`, \`AZURE_CLIENT_ID\`, \`AZURE_CLIENT_SECRET\` and \`AZURE_FEDERATED_TOKEN_FILE\` override their keys.
- \`cloud-controller-host check-config --cloud-config=FILE\` prints all problems and warnings without a cluster.
`;

type Json = Readonly<Record<string, unknown>>;
const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const textOf = (value: unknown): string =>
  typeof value === "string" || typeof value === "number" || typeof value === "boolean" ? String(value) : "";

interface Row {
  readonly key: string;
  readonly type: string;
  readonly fallback: string;
  readonly description: string;
}

/** A key, and the keys inside of it. */
function rowsOf(key: string, schema: Json): readonly Row[] {
  const description = textOf(schema["description"]) + (schema["writeOnly"] === true ? " Secret." : "");
  const row = { key, type: typeOf(schema), fallback: defaultOf(schema), description };
  const items = isObject(schema["items"]) ? schema["items"] : undefined;
  const properties = items?.["properties"] ?? schema["properties"];
  if (!isObject(properties)) return [row];
  const prefix = items === undefined ? `${key}.` : `${key}[].`;
  return [
    row,
    ...Object.entries(properties).flatMap(([name, inner]) => (isObject(inner) ? rowsOf(prefix + name, inner) : [])),
  ];
}

function typeOf(schema: Json): string {
  const words: unknown = schema["anyOf"];
  if (Array.isArray(words))
    return words
      .flatMap((word: unknown) => (isObject(word) && word["const"] ? [`\`${textOf(word["const"])}\``] : []))
      .join(", ");
  if (isObject(schema["patternProperties"])) return "mapping";
  if (schema["type"] === "array") return "list";
  return typeof schema["type"] === "string" ? schema["type"] : "any";
}

const defaultOf = ({ default: fallback }: Json): string => (textOf(fallback) === "" ? "" : `\`${textOf(fallback)}\``);

/** The page as it must be, by the table of keys. */
export function configReference(): string {
  const sections = Object.entries(configSections).map(([title, keys]) => {
    const rows = Object.entries(keys).flatMap(([key, schema]) => rowsOf(key, schema));
    const lines = rows.map(({ key, type, fallback, description }) =>
      `| \`${key}\` | ${type} | ${fallback} | ${description.trim().replaceAll("|", "\\|")} |`.replaceAll("|  |", "| |"),
    );
    return `\n## ${title}\n\n| Key | Type | Default | Description |\n| --- | --- | --- | --- |\n${lines.join("\n")}\n`;
  });
  return `${head}${sections.join("")}`;
}

if (import.meta.main) await Bun.write(configReferencePath, configReference());
