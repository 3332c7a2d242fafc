import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { onePerLine } from '../../examples/demo/text';
import { Tokenizer } from '../../examples/demo/tokenizer';
import { packageRoot } from './run_example';

const BOOK = readFileSync(join(packageRoot, 'examples', 'data', 'alice.txt'), 'utf8');

describe("the demo's text", () => {
  it('holds at least 100 kB of plain ASCII', () => {
    expect(BOOK.length).toBeGreaterThanOrEqual(100_000);
    expect(BOOK).toMatch(/^[\x20-\x7e\n]*$/);
  });

  it('is joined to one line a paragraph', () => {
    expect(onePerLine('\n a  b\nc\n\n \n\nd\n')).toBe('a b c\nd\n');
  });
});

describe('Tokenizer', () => {
  it('merges the most frequent pair first', () => {
    const tokenizer = Tokenizer.learn('abab abc', 5);
    // Characters ' ', a, b, c are 0 to 3; 'ab' is 4.
    expect(tokenizer.encode('abc')).toEqual([4, 3]);
  });

  it('stops when no pair occurs twice', () => {
    expect(Tokenizer.learn('abc', 100).vocabSize).toBe(3);
  });

  it('gives back the text it encoded', () => {
    const text = onePerLine(BOOK);
    const tokenizer = Tokenizer.learn(text, 300);
    const ids = tokenizer.encode(text);
    expect(tokenizer.vocabSize).toBe(300);
    expect(ids.length).toBeLessThan(text.length * 0.7);
    expect(tokenizer.decode(ids)).toBe(text);
  });

  it('encodes words that it has not seen from parts that it has', () => {
    const tokenizer = Tokenizer.learn('the hat the hat', 10);
    expect(tokenizer.decode(tokenizer.encode('that'))).toBe('that');
  });

  it('names a character that it does not know', () => {
    expect(() => Tokenizer.learn('abc', 10).encode('abx')).toThrow("holds 'x', which the tokenizer does not know");
  });
});
