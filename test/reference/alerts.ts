import { join } from "node:path";

import { parse } from "yaml";

import { code, heading, table } from "./markdown.ts";

interface Rule {
  readonly alert: string;
  readonly for?: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string; readonly description: string };
}

interface Rules {
  readonly groups: readonly { readonly name: string; readonly rules: readonly Rule[] }[];
}

/** Every alert of the chart. */
export async function alerts(): Promise<string> {
  const file = join(import.meta.dir, "../../deploy/chart/files/alerts.yaml");
  const { groups }: Rules = parse(await Bun.file(file).text());
  const plain = (text: string): string =>
    text.replaceAll(/\{\{ *\$value[^}]*\}\}/g, "N").replaceAll(/\{\{ *\$labels\.(\w+) *\}\}/g, "`$1`");
  const sections = groups.map(({ name, rules }) => {
    const rows = rules.map(({ alert, labels, annotations, ...rule }) => [
      code(alert),
      labels.severity,
      rule.for ?? "",
      `${annotations.summary}. ${plain(annotations.description)}`,
    ]);
    return `\n## ${name}\n\n${table(["Alert", "Severity", "For", "Meaning"], rows)}\n`;
  });
  return `${heading("Alerts", "`chart/files/alerts.yaml`")}${sections.join("")}`;
}
