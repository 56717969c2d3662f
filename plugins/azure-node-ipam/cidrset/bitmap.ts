const full = 0xffff_ffff;

/** A fixed number of bits that knows how many of them are set. Ranges include both ends and must lie within it. */
export class Bitmap {
  readonly size: number;
  readonly #words: Uint32Array;
  #count = 0;

  constructor(size: number) {
    this.size = size;
    this.#words = new Uint32Array(Math.ceil(size / 32));
  }

  get count(): number {
    return this.#count;
  }

  has(index: number): boolean {
    return (((this.#words[index >> 5] ?? 0) >>> (index & 31)) & 1) === 1;
  }

  /** Sets the bits of a range; returns how many of them were clear. */
  set(first: number, last: number): number {
    let changed = 0;
    for (let word = first >> 5; word <= last >> 5; word++) {
      const before = this.#words[word] ?? 0;
      changed += ones(maskOf(word, first, last) & ~before);
      this.#words[word] = before | maskOf(word, first, last);
    }
    this.#count += changed;
    return changed;
  }

  /** Clears the bits of a range; returns how many of them were set. */
  clear(first: number, last: number): number {
    let changed = 0;
    for (let word = first >> 5; word <= last >> 5; word++) {
      const before = this.#words[word] ?? 0;
      changed += ones(maskOf(word, first, last) & before);
      this.#words[word] = before & ~maskOf(word, first, last);
    }
    this.#count -= changed;
    return changed;
  }

  setBits(first: number, last: number): readonly number[] {
    const found: number[] = [];
    for (let word = first >> 5; word <= last >> 5; word++)
      for (let bits = (this.#words[word] ?? 0) & maskOf(word, first, last); bits !== 0; bits &= bits - 1)
        found.push(word * 32 + (31 - Math.clz32(bits & -bits)));
    return found;
  }

  /** The first clear bit at `from` or after it. */
  nextClear(from: number): number | undefined {
    for (let word = from >> 5; word < this.#words.length; word++) {
      const clear = ~(this.#words[word] ?? 0) & maskOf(word, from, this.size - 1);
      if (clear !== 0) return word * 32 + (31 - Math.clz32(clear & -clear));
    }
    return undefined;
  }

  /** Start of the first run of that many clear bits, at a multiple of its length, a power of two. */
  alignedClear(run: number): number | undefined {
    if (run > 32) return this.#alignedClearWords(run >> 5);
    const pattern = run === 32 ? full : (1 << run) - 1;
    for (const [word, bits] of this.#words.entries()) {
      if (bits === full) continue;
      for (let offset = 0; offset < 32 && word * 32 + offset + run <= this.size; offset += run)
        if ((bits & (pattern << offset)) === 0) return word * 32 + offset;
    }
    return undefined;
  }

  #alignedClearWords(run: number): number | undefined {
    for (let start = 0; start + run <= this.#words.length; start += run)
      if (this.#words.subarray(start, start + run).every((bits) => bits === 0)) return start * 32;
    return undefined;
  }
}

/** The bits of one word that lie in the range. */
function maskOf(word: number, first: number, last: number): number {
  const low = word === first >> 5 ? full << (first & 31) : full;
  const high = word === last >> 5 ? full >>> (31 - (last & 31)) : full;
  return low & high;
}

/** Number of set bits of a word, counted in pairs, nibbles and bytes at once. */
function ones(word: number): number {
  const pairs = word - ((word >>> 1) & 0x5555_5555);
  const nibbles = (pairs & 0x3333_3333) + ((pairs >>> 2) & 0x3333_3333);
  return Math.imul((nibbles + (nibbles >>> 4)) & 0x0f0f_0f0f, 0x0101_0101) >>> 24;
}
