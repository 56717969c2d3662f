import { bad, good, type Parsed } from "./parsed.ts";

/** Parses one line of comma-separated fields; a field may be double-quoted, with `""` for a quote. */
export function parseCSV(text: string): Parsed<readonly string[]> {
  const line = text.replace(/[\r\n]+$/, "");
  if (line === "") return good([]);
  const fields: string[] = [];
  for (let at = 0; at <= line.length;) {
    const field = line[at] === '"' ? quotedField(line, at) : plainField(line, at);
    if (!field.ok) return field;
    fields.push(field.value.text);
    at = field.value.end + 1;
  }
  return good(fields);
}

interface Field {
  readonly text: string;
  /** Index of the comma after the field, or the end of the line. */
  readonly end: number;
}

function plainField(line: string, start: number): Parsed<Field> {
  const comma = line.indexOf(",", start);
  const end = comma < 0 ? line.length : comma;
  const text = line.slice(start, end);
  const quote = text.indexOf('"');
  if (quote >= 0) return bad(`an item with the " at character ${start + quote + 1} must begin with one`);
  return /[\r\n]/.test(text) ? bad("must be one line") : good({ text, end });
}

function quotedField(line: string, start: number): Parsed<Field> {
  const body = /"((?:[^"]|"")*)"/y;
  body.lastIndex = start;
  const match = body.exec(line);
  if (match === null) return bad(`the " at character ${start + 1} is not closed`);
  const end = body.lastIndex;
  if (end < line.length && line[end] !== ",") return bad(`a comma must follow the " at character ${end}`);
  return good({ text: (match[1] ?? "").replaceAll('""', '"'), end });
}

/** The inverse of `parseCSV`. */
export function formatCSV(fields: readonly string[]): string {
  if (fields.length === 1 && fields[0] === "") return '""';
  return fields
    .map((field) => (/^\s|[",\r\n]|^\\\.$/.test(field) ? `"${field.replaceAll('"', '""')}"` : field))
    .join(",");
}
