/** Words with the blank before them, and every other character by itself: merges never cross these borders. */
const PIECES = / ?[A-Za-z]+|[^A-Za-z]/g;

/** Byte-pair encoding, learned from the text that it will be used on. */
export class Tokenizer {
  private readonly ids: Map<string, number>;

  private constructor(
    private readonly tokens: readonly string[],
    /** Rank of a merge under its two parts; lower ranks merge first. */
    private readonly ranks: ReadonlyMap<string, number>,
  ) {
    this.ids = new Map(tokens.map((token, id) => [token, id]));
  }

  get vocabSize(): number {
    return this.tokens.length;
  }

  /**
   * Starts from the characters of `text` and merges the most frequent pair of neighbours, the first seen of equally
   * frequent ones, until there are `vocabSize` tokens or nothing occurs twice.
   */
  static learn(text: string, vocabSize: number): Tokenizer {
    const tokens = [...new Set(text)].sort();
    const ranks = new Map<string, number>();
    const counts = new Map<string, number>();
    for (const [piece] of text.matchAll(PIECES)) counts.set(piece, (counts.get(piece) ?? 0) + 1);
    const words = [...counts].map(([piece, count]) => ({ parts: [...piece], count }));

    while (tokens.length < vocabSize) {
      const pair = mostFrequentPair(words);
      if (pair === undefined) break;
      ranks.set(pair.join('\0'), ranks.size);
      tokens.push(pair.join(''));
      for (const word of words) word.parts = merge(word.parts, pair);
    }
    return new Tokenizer(tokens, ranks);
  }

  /** Token ids of `text`. Throws on a character that the tokenizer has not seen. */
  encode(text: string): number[] {
    const known = new Map<string, number[]>();
    const result: number[] = [];
    for (const [piece] of text.matchAll(PIECES)) {
      const ids = known.get(piece) ?? this.encodePiece(piece);
      known.set(piece, ids);
      result.push(...ids);
    }
    return result;
  }

  decode(ids: readonly number[]): string {
    return ids.map((id) => this.tokens[id]).join('');
  }

  private encodePiece(piece: string): number[] {
    let parts = [...piece];
    for (let pair = this.firstMerge(parts); pair !== undefined; pair = this.firstMerge(parts)) {
      parts = merge(parts, pair);
    }
    return parts.map((part) => {
      const id = this.ids.get(part);
      if (id === undefined) throw new Error(`The text holds '${part}', which the tokenizer does not know.`);
      return id;
    });
  }

  private firstMerge(parts: readonly string[]): Pair | undefined {
    let best: Pair | undefined;
    let bestRank = Infinity;
    for (let i = 1; i < parts.length; i++) {
      const pair: Pair = [parts[i - 1], parts[i]];
      const rank = this.ranks.get(pair.join('\0')) ?? Infinity;
      if (rank < bestRank) [best, bestRank] = [pair, rank];
    }
    return best;
  }
}

type Pair = [string, string];

function mostFrequentPair(words: readonly { parts: readonly string[]; count: number }[]): Pair | undefined {
  const counts = new Map<string, number>();
  for (const { parts, count } of words) {
    for (let i = 1; i < parts.length; i++) {
      const key = `${parts[i - 1]}\0${parts[i]}`;
      counts.set(key, (counts.get(key) ?? 0) + count);
    }
  }
  let best: string | undefined;
  let bestCount = 1;
  for (const [key, count] of counts) if (count > bestCount) [best, bestCount] = [key, count];
  return best?.split('\0') as Pair | undefined;
}

function merge(parts: readonly string[], [left, right]: Pair): string[] {
  const merged: string[] = [];
  for (let i = 0; i < parts.length; i++) {
    if (parts[i] === left && parts[i + 1] === right) {
      merged.push(left + right);
      i++;
    } else {
      merged.push(parts[i]);
    }
  }
  return merged;
}
