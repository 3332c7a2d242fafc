const UNKNOWN = '[UNK]';

/** The ids of a vocabulary of word pieces, as BERT has them: '##' marks a piece that continues a word. */
export class WordPieces {
  private readonly ids: Map<string, number>;

  /** @param tokens by id */
  constructor(tokens: readonly string[]) {
    this.ids = new Map(tokens.map((token, id) => [token, id]));
  }

  /** Ids of a text in lower case: each word in the longest pieces from the left, each other character alone. */
  encode(text: string): number[] {
    const words = text.toLowerCase().match(/[a-z0-9]+|[^\sa-z0-9]/g) ?? [];
    return words.flatMap((word) => this.encodeWord(word));
  }

  private encodeWord(word: string): number[] {
    const pieces: number[] = [];
    for (let begin = 0; begin < word.length;) {
      let end = word.length;
      const id = () => this.ids.get((begin > 0 ? '##' : '') + word.slice(begin, end));
      while (end > begin && id() === undefined) end--;
      if (end === begin) return [this.idOf(UNKNOWN)];
      pieces.push(id() as number);
      begin = end;
    }
    return pieces;
  }

  private idOf(token: string): number {
    const id = this.ids.get(token);
    if (id === undefined) throw new Error(`The vocabulary has no token '${token}'.`);
    return id;
  }
}
