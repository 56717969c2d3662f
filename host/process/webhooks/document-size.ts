/** Far above any object of Kubernetes. Parsed, each value takes up to a hundred bytes, however short its text. */
const maxValues = 150_000;
/** Go's decoder allows 10,000. */
const maxDepth = 1_000;

const [quote, backslash, comma] = [0x22, 0x5c, 0x2c];
const [openBracket, closeBracket, openBrace, closeBrace] = [0x5b, 0x5d, 0x7b, 0x7d];

/** The reason why a document, small as a text, would be large as objects; undefined when it would not. */
export function excessOf(json: string): string | undefined {
  let [depth, values] = [0, 0];
  for (let i = 0; i < json.length; i++) {
    const code = json.charCodeAt(i);
    if (code === quote) i = endOfText(json, i);
    else if (code === openBracket || code === openBrace) {
      depth++;
      values++;
    } else if (code === closeBracket || code === closeBrace) depth--;
    else if (code === comma) values++;
    if (depth > maxDepth) return `it is nested more than ${maxDepth} deep`;
    if (values > maxValues) return `it has more than ${maxValues} values`;
  }
  return undefined;
}

function endOfText(json: string, start: number): number {
  let end = start;
  do end = json.indexOf('"', end + 1);
  while (end > 0 && isEscaped(json, end));
  return end < 0 ? json.length : end;
}

function isEscaped(json: string, at: number): boolean {
  let before = at;
  while (json.charCodeAt(before - 1) === backslash) before--;
  return (at - before) % 2 === 1;
}
