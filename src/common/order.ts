/**
 * The one order by which everything in this package ranks: NaN before +inf, then the larger value, then the lower id;
 * -0 equals +0, and all NaN are equal. `kernels/core/order.h` is its twin on the GPU.
 */

/** Key of every NaN: above the key of +inf. */
export const NAN_KEY = 0x7fffffff;
/** Key and id that lose against every real candidate: those of a slice without columns. */
export const EMPTY_KEY = -0x80000000;
export const EMPTY_ID = 0x7fffffff;

const float = new Float32Array(1);
const bits = new Int32Array(float.buffer);

/** An int32 that compares, signed, as the float32 `value` ranks: larger is better. */
export function orderKey(value: number): number {
  if (value !== value) return NAN_KEY;
  float[0] = value === 0 ? 0 : value; // -0 ranks as +0
  return bits[0] >= 0 ? bits[0] : bits[0] ^ 0x7fffffff;
}

/** Whether (key, id) comes before (otherKey, otherId). */
export function isBetter(key: number, id: number, otherKey: number, otherId: number): boolean {
  return key > otherKey || (key === otherKey && id < otherId);
}

/** The best `k` of all (id, value) offered, in O(log k) an offer: a heap whose root is the worst that is kept. */
export class TopK {
  private readonly keys: Int32Array;
  private readonly ids: Int32Array;
  private readonly values: Float32Array;
  private size = 0;

  constructor(private readonly k: number) {
    this.keys = new Int32Array(k);
    this.ids = new Int32Array(k);
    this.values = new Float32Array(k);
  }

  /** Each id may be offered once; the order of the offers does not matter. */
  offer(id: number, value: number): void {
    const key = orderKey(value);
    if (this.size < this.k) {
      this.set(this.size, key, id, value);
      this.siftUp(this.size++);
    } else if (this.k > 0 && isBetter(key, id, this.keys[0], this.ids[0])) {
      this.set(0, key, id, value);
      this.siftDown(0);
    }
  }

  /** Writes what was kept, best first, to `values` and `ids` from `offset` on, and empties the heap. */
  drain(values: Float32Array, ids: Int32Array, offset: number): void {
    while (this.size > 0) {
      const last = --this.size;
      values[offset + last] = this.values[0];
      ids[offset + last] = this.ids[0];
      this.set(0, this.keys[last], this.ids[last], this.values[last]);
      this.siftDown(0);
    }
  }

  private set(at: number, key: number, id: number, value: number): void {
    this.keys[at] = key;
    this.ids[at] = id;
    this.values[at] = value;
  }

  private worse(a: number, b: number): boolean {
    return isBetter(this.keys[b], this.ids[b], this.keys[a], this.ids[a]);
  }

  private swap(a: number, b: number): void {
    const [key, id, value] = [this.keys[a], this.ids[a], this.values[a]];
    this.set(a, this.keys[b], this.ids[b], this.values[b]);
    this.set(b, key, id, value);
  }

  private siftUp(at: number): void {
    for (let parent = (at - 1) >> 1; at > 0 && this.worse(at, parent); at = parent, parent = (at - 1) >> 1) {
      this.swap(at, parent);
    }
  }

  private siftDown(at: number): void {
    for (;;) {
      let worst = at;
      for (const child of [2 * at + 1, 2 * at + 2]) {
        if (child < this.size && this.worse(child, worst)) worst = child;
      }
      if (worst === at) return;
      this.swap(at, worst);
      at = worst;
    }
  }
}
