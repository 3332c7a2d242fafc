/**
 * How a binary head lies in memory: `kernels/core/binary_layout.h` in TypeScript, number for number. Tiles of 256 ids, each
 * with its bits and then its scales.
 *
 * Bits lie in chunks of up to 4 blocks; a block is 128 columns (4 words) of all 256 ids, and the same word of an id of all
 * the chunk's blocks lies side by side. Scales are fp16 pairs in words, those of 4 groups of an id side by side. What does
 * not exist (words behind hiddenSize, groups behind the last, ids behind the vocabulary) is 0.
 */
const { ceil, floor, min } = Math;

/** Dot products of larger groups have more digits than the CUDA kernels keep on their way from integers to floats. */
export const MAX_GROUP_SIZE = 32768;
export const TILE_IDS = 256;
const BLOCK_WORDS = 4;
const CHUNK_BLOCKS = 4;
const QUAD_GROUPS = 4;

export class BinaryLayout {
  /** Words of bits of an id. */
  readonly words: number;
  /** Scales of an id. */
  readonly groups: number;
  /** Words of a tile: its bits, and all of it. */
  readonly bitWords: number;
  readonly tileWords: number;
  private readonly blocks: number;

  constructor(hiddenSize: number, groupSize: number) {
    this.words = hiddenSize / 32;
    this.groups = hiddenSize / groupSize;
    this.blocks = ceil(this.words / BLOCK_WORDS);
    this.bitWords = TILE_IDS * BLOCK_WORDS * this.blocks;
    this.tileWords = this.bitWords + ((TILE_IDS * QUAD_GROUPS) / 2) * ceil(this.groups / QUAD_GROUPS);
  }

  tiles(vocabSize: number): number {
    return ceil(vocabSize / TILE_IDS);
  }

  /** Where word `word` of id `id` lies in the whole tensor. */
  wordAt(id: number, word: number): number {
    const block = floor(word / BLOCK_WORDS);
    const chunk = floor(block / CHUNK_BLOCKS);
    const blocksOfChunk = min(CHUNK_BLOCKS, this.blocks - chunk * CHUNK_BLOCKS);
    const lane = (id % TILE_IDS) * BLOCK_WORDS + (word % BLOCK_WORDS);
    const inTile = chunk * TILE_IDS * BLOCK_WORDS * CHUNK_BLOCKS + lane * blocksOfChunk + (block % CHUNK_BLOCKS);
    return floor(id / TILE_IDS) * this.tileWords + inTile;
  }

  /** Where the scale of group `group` of id `id` lies in the whole tensor, in 16-bit elements; the lower half of a word first. */
  scaleAt(id: number, group: number): number {
    const quad = floor(group / QUAD_GROUPS);
    const inTile = 2 * this.bitWords + (quad * TILE_IDS + (id % TILE_IDS)) * QUAD_GROUPS + (group % QUAD_GROUPS);
    return 2 * floor(id / TILE_IDS) * this.tileWords + inTile;
  }
}
