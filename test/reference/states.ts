import { rows } from "../../host/generation/report/states.ts";
import { phaseRules } from "../host/generation/phase-rules.ts";
import { code, heading, table } from "./markdown.ts";

/** The life of the slot in which generations run. */
export function states(): string {
  const rules = Object.entries(phaseRules).map(([phase, { mayWrite, awaits, limit, onAbort }]) => [
    code(phase),
    mayWrite,
    awaits,
    limit,
    onAbort,
  ]);
  const changes = rows.map(({ from, on, when = "", to, effects }) => [
    code(from),
    code(on),
    when,
    code(to),
    effects.join(", "),
  ]);
  return `${heading("Generation states", "the table in `report/states.ts`")}
The slot holds at most one running generation. \`transition\` is a pure function over the table, and \`slot/slot.ts\` carries out
the effects. An event without a row changes nothing; a generation that no row adopts is disposed of.

${table(["Phase", "May write", "Awaits", "Limit", "On abort"], rules)}

${table(["Phase", "Event", "Condition", "Next", "Effects"], changes)}
`;
}
