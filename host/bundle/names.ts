/** Names that say nothing about a cluster, and words of an API that a name may equal. */
const kept = new Set(
  (
    "allow any basic cluster default deny dynamic false global gateway http https icmp inbound internal ipv4 ipv6 kube-node-lease " +
    "kube-public kube-system kubernetes linux local none null outbound primary regional sctp standard static tcp true udp windows"
  ).split(" "),
);

/** True for a name to replace: not a number, a word of an API or a name derived from a UID. */
const isOwn = (name: string): boolean =>
  name.length > 1 && !kept.has(name) && !/^\d+$/u.test(name) && !/^(?:a[0-9a-f]{31}|k8s-)/u.test(name);

const tokenPattern = /[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?/giu;
const separatorPattern = /[._-]+/gu;
const wordPattern = /[^._-]+/gu;
/** Of Kubernetes; those of Azure are shorter. */
const maxName = 253;
const firstWordOf = (name: string): string => name.split(/[._-]/u, 1)[0] ?? "";
/** Computer names in a scale set: a prefix, and the instance in six digits of base 36. */
const instancePattern = /^(.+?)([0-9a-z]{6})$/u;

/** Prefixes and suffixes that the cloud provider adds to a name, and the names that it derives from UIDs. */
const derivedPattern = /^(?:[._-]+(?:internal|ipv[46]|nic|\d+|a[0-9a-f]{31}))+$/u;

/** Names with their replacements. Names are compared without their case, as Azure does. */
export class Names {
  readonly #words = new Map<string, Set<string>>();
  /** Length of the longest name that begins with the word. */
  readonly #longest = new Map<string, number>();
  #replacements: ReadonlyMap<string, string> | undefined;

  /** Adds a name. The kind makes its replacement recognizable. */
  add(kind: string, name: string): void {
    const key = name.toLowerCase();
    if (!isOwn(key)) return;
    this.#replacements = undefined;
    const word = kind
      .toLowerCase()
      .replaceAll(/[^a-z0-9]/gu, "")
      .replace(/s$/u, "");
    this.#words.set(word, (this.#words.get(word) ?? new Set()).add(key));
  }

  replace(text: string): string {
    if (this.#replacements === undefined) {
      this.#replacements = this.#assign();
      for (const name of this.#replacements.keys()) {
        const first = firstWordOf(name);
        if (name.length <= maxName) this.#longest.set(first, Math.max(name.length, this.#longest.get(first) ?? 0));
      }
    }
    return text.replaceAll(tokenPattern, (token) => this.#replaced(token));
  }

  /**
   * Replaces the longest known prefix of the token, then does the same with the rest. Only prefixes that are short enough
   * to be a name are looked up: a tenant's token may have thousands of words.
   */
  #replaced(token: string): string {
    const whole = this.#replacements?.get(token.toLowerCase());
    if (whole !== undefined) return whole;
    const words = [...token.matchAll(wordPattern)].map(({ index, 0: word }) => ({
      start: index,
      end: index + word.length,
    }));
    let replaced = "";
    for (let at = 0; at < words.length;) {
      const { start = 0, end = 0 } = words[at] ?? {};
      const longest = start + (this.#longest.get(token.slice(start, end).toLowerCase()) ?? 0);
      let [last, name] = [at, token.slice(start, end)];
      for (let to = at; to < words.length; to++) {
        const until = words[to]?.end ?? 0;
        if (until > longest) break;
        const known = this.#replacements?.get(token.slice(start, until).toLowerCase());
        if (known !== undefined) [last, name] = [to, known];
      }
      at = last + 1;
      replaced += name + token.slice(words[last]?.end, words[at]?.start);
    }
    return replaced;
  }

  /** Numbers names in their order, so that sorted lists stay sorted. Derived names get no replacement of their own. */
  #assign(): ReadonlyMap<string, string> {
    const prefixes = this.#words.get("computernameprefix") ?? new Set<string>();
    const words = [...this.#words].flatMap(([word, names]) => [...names].map((name) => [name, word] as const));
    // The kind under which a name was added first.
    const all = new Map(words.toReversed());
    const own = [...all].filter(([name]) => !isDerived(name, all)).toSorted(([one], [other]) => (one < other ? -1 : 1));
    const numbered = own.map(([name, word], index) => [name, `${word}${String(index).padStart(5, "0")}`] as const);
    const replacements = new Map(numbered);
    for (const [name] of own) {
      const [, prefix = "", instance = ""] = instancePattern.exec(name) ?? [];
      const known = prefixes.has(prefix) ? replacements.get(prefix) : undefined;
      if (known !== undefined) replacements.set(name, `${known}${instance}`);
    }
    return replacements;
  }
}

/** True for a name like `vm-0-nic` or `kubernetes-a0123…`, which begins with another one, or with a word that is kept. */
const isDerived = (name: string, names: { has(name: string): boolean }): boolean =>
  [...name.matchAll(separatorPattern)].some(({ index }) => {
    const beginning = index > maxName ? "" : name.slice(0, index);
    return (names.has(beginning) || kept.has(beginning)) && derivedPattern.test(name.slice(index));
  });
