import { isObject } from "cloud-controller-host/sdk";

import { configSections } from "../../plugins/azure-cloud/config/schema.ts";
import { code, heading, table } from "./markdown.ts";

const head = `${heading("Azure cloud config", "the table in `config/schema.ts`")}
- The config is YAML or JSON, from \`--cloud-config\` or from a Secret (\`--cloud-config-secret-name\`), read alike.
- Keys match in any case. Unknown keys are ignored with a warning that suggests the key that was probably meant.
- YAML is read as Go reads it: \`yes\` and \`on\` are booleans; the last value of a duplicate key applies, with a warning.
- \`null\` is the default. Numbers and booleans are accepted for strings. Words such as \`standard\` match in any case.
- Durations are integers in seconds. Resource group names default to \`resourceGroup\`, which is lower-cased.
- \`AZURE_TENANT_ID\`, \`AZURE_CLIENT_ID\`, \`AZURE_CLIENT_SECRET\` and \`AZURE_FEDERATED_TOKEN_FILE\` override their keys.
- \`cloud-controller-host check-config --cloud-config=FILE\` prints all problems and warnings without a cluster.
`;

type Json = Readonly<Record<string, unknown>>;
const textOf = (value: unknown): string =>
  typeof value === "string" || typeof value === "number" || typeof value === "boolean" ? String(value) : "";

/** The cells of a key, and of the keys inside of it. */
function rowsOf(key: string, schema: Json): readonly (readonly string[])[] {
  const description = textOf(schema["description"]) + (schema["writeOnly"] === true ? " Secret." : "");
  const row = [code(key), typeOf(schema), code(textOf(schema["default"])), description];
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

/** Every key of the cloud config. */
export function config(): string {
  const sections = Object.entries(configSections).map(([title, keys]) => {
    const rows = Object.entries(keys).flatMap(([key, schema]) => rowsOf(key, schema));
    return `\n## ${title}\n\n${table(["Key", "Type", "Default", "Description"], rows)}\n`;
  });
  return `${head}${sections.join("")}`;
}
