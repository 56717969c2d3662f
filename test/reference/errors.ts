import { errorTable } from "cloud-controller-host/sdk";

import { code, heading, table } from "./markdown.ts";

/** Every code of an error. */
export function errors(): string {
  const sections = Object.entries(errorTable).map(
    ([area, rows]) =>
      `\n## ${area}\n\n${table(
        ["Code", "Meaning", "What to do"],
        Object.entries(rows).map(([name, [meaning, remedy]]) => [code(name), meaning, remedy]),
      )}\n`,
  );
  return `${heading("Error codes", "the table in `error-codes.ts`")}
The \`code\` of a \`CodedError\`. \`help errors\` prints this table and \`help CODE\` one row. The label \`error_code\` of
\`arm_request_errors_counter_total\` has these codes and those of Azure. Plugins may use codes of their own.
${sections.join("")}`;
}
