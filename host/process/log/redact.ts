export const redacted = "[redacted]";

const secretWord =
  "(?:password|passwd|passphrase|secret|token|authorization|credentials?|cookie|(?:private|api|access|account|shared|client)[-_]?key)";
/** A key is secret by its last word: `clientSecret` and `aad_client_secret` are, `secretName` is not. */
const secretKey = new RegExp(`${secretWord}$`, "i");

export const isSecretKey = (key: string): boolean => secretKey.test(key);

/** A credential, and no word of a sentence: "Bearer authentication failed" has to stay readable. */
const isToken = (text: string): boolean => text.length >= 8 && (/\d|\.\w/.test(text) || text.length >= 24);

/** HTTP basic credentials decode to `user:password`. */
const isBasic = (text: string): boolean => /^[^:\p{C}]*:/u.test(Buffer.from(text, "base64").toString("utf8"));

/** A kind of secret that travels inside text: the part before it, if any, is kept. */
interface SecretPattern {
  readonly pattern: RegExp;
  /** Receives the groups of the match; default: every match. */
  readonly applies?: (groups: Readonly<Record<string, string | undefined>>) => boolean;
}

const secretPatterns: readonly SecretPattern[] = [
  { pattern: /(?<before>)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)/gs },
  { pattern: /(?<before>\bauthorization["']?\s*[:=]\s*["']?(basic|bearer|digest|negotiate)\s+)[^\s"',;\\]+/gi },
  {
    pattern: /(?<before>\bbearer\s+)(?<token>[\w~+/-][\w.~+/-]*[\w~+/-]=*)/gi,
    applies: ({ token = "" }) => isToken(token),
  },
  { pattern: /(?<before>\bbasic\s+)(?<token>[A-Za-z0-9+/]{4,}={0,2})/gi, applies: ({ token = "" }) => isBasic(token) },
  // A token of three parts, looked for once per word: each search reads to the end of it.
  { pattern: /(?<![\w-])(?=[\w-]+\.[\w-]{10,}\.)(?<before>[\w-]*?\b)eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*/g },
  { pattern: /(?<before>\b[a-z][a-z0-9+.-]{0,20}:\/\/)[^\s/@"'<>]+(?=@)/gi },
  {
    pattern:
      /(?<before>\b(client_secret|client_assertion|assertion|access_token|refresh_token|id_token|code|password|sig)=)[^&\s"'\\]+/gi,
  },
  // JSON, also inside a JSON string, where the quotes are escaped: four levels have 15 backslashes.
  {
    pattern: new RegExp(
      String.raw`(?<before>(?<escape>\\{0,15})"[\w.-]{0,60}?${secretWord}\k<escape>"\s{0,8}:\s{0,8}\k<escape>")(?:(?!\k<escape>")(?:\\{1,15}"|[^]))*`,
      "gi",
    ),
  },
  // YAML and `key=value`. A single word may belong to a sentence, as in "token: expired".
  {
    pattern: /(?<before>\b(?<key>[a-z]+([A-Z][a-z]+|_[a-z]+)+)\s{0,4}[:=]\s{0,4}["']?)(?<token>[^\s"',;&\\]{6,})/g,
    applies: ({ key = "", token = "" }) => secretKey.test(key) && /\d|[^\w]|[a-z][A-Z]/.test(token),
  },
];

/** Replaces secrets inside a text. */
export function redactText(text: string): string {
  let shown = text;
  for (const { pattern, applies } of secretPatterns)
    shown = shown.replaceAll(pattern, (match: string, ...rest: unknown[]) => {
      const groups = groupsOf(rest.at(-1));
      return applies?.(groups) === false ? match : `${groups["before"] ?? ""}${redacted}`;
    });
  return shown;
}

function groupsOf(value: unknown): Readonly<Record<string, string | undefined>> {
  return typeof value === "object" && value !== null ? { ...value } : {};
}
