// The words that two sequences have in common, by Myers' algorithm, with a bounded number of steps.

// About 0.1 s.
export const MOST_STEPS = 8_000_000;
// Edits of a stretch: at least few, and no more than fit in 16 MB, in which all paths of a stretch are kept.
const LEAST_EDITS = 64, MOST_EDITS = 2_000;

// Counts the numbers that have a partner, and their runs without a gap. In scripts with few characters unlike texts share more than
// a tenth of them, but scattered: rarely two in a row.
export function countPartners(partners) {
  let shared = 0, runs = 0, before = -2;
  for (let place = 0; place < partners.length; place += 1) {
    const partner = partners[place];
    if (partner >= 0) {
      shared += 1;
      if (partner !== before + 1) runs += 1;
    }
    before = partner < 0 ? -2 : partner;
  }
  return { shared, runs, isScattered: shared < 2 * runs };
}

// Returns for each number of `a` the place of its partner in `b` (-1 without one), and whether there is no longer common sequence.
export function matchNumbers(a, b, different, steps = MOST_STEPS) {
  const left = sharedNumbers(a, b, different), right = sharedNumbers(b, a, different);
  const search = new Search(left.numbers, right.numbers, steps);
  search.run();
  const partners = new Int32Array(a.length).fill(-1);
  for (let place = 0; place < left.numbers.length; place += 1) {
    const partner = search.partners[place];
    if (partner >= 0) partners[left.places[place]] = right.places[partner];
  }
  return { partners, isShortest: search.isShortest };
}

// The numbers that the other sequence has too, and their places. The others have no partner, whatever the order is.
function sharedNumbers(numbers, others, different) {
  const isInOther = new Uint8Array(different);
  for (let place = 0; place < others.length; place += 1) isInOther[others[place]] = 1;
  const places = new Int32Array(numbers.length), shared = new Int32Array(numbers.length);
  let count = 0;
  for (let place = 0; place < numbers.length; place += 1) {
    const number = numbers[place];
    if (!isInOther[number]) continue;
    places[count] = place;
    shared[count++] = number;
  }
  return { places, numbers: shared.subarray(0, count) };
}

class Search {
  constructor(a, b, steps) {
    // A longer pair has shorter stretches: then all of them together take about the steps there are.
    const edits = Math.floor((2 * steps) / (a.length + b.length + 1));
    this.mostEdits = Math.min(Math.max(edits, LEAST_EDITS), MOST_EDITS, a.length + b.length);
    // Very long texts that share nothing but chance in a tenth of the steps are given up: it would be 0.5 s for nothing.
    this.giveUpAt = edits < LEAST_EDITS ? 0.9 * steps : -Infinity;
    Object.assign(this, { a, b, left: steps, isShortest: true, reached: new Int32Array((this.mostEdits + 1) ** 2) });
    this.partners = new Int32Array(a.length).fill(-1);
  }

  // Matches what both end with, and then stretch after stretch.
  run() {
    const { a, b, partners } = this;
    let i = 0, j = 0, width = a.length, height = b.length;
    while (width && height && a[width - 1] === b[height - 1]) partners[--width] = --height;
    while (i < width && j < height && this.left > 0) {
      [i, j] = this.matchStretch(i, j, width - i, height - j);
      this.isShortest &&= i === width && j === height;
      if (this.left < this.giveUpAt && this.isChance(i, j)) break;
    }
    this.isShortest &&= i === width || j === height;
  }

  // Whether what was matched up to two places says nothing. It is computed once.
  isChance(i, j) {
    this.giveUpAt = -Infinity;
    const { shared, isScattered } = countPartners(this.partners.subarray(0, i));
    return isScattered || 10 * shared < Math.max(i, j);
  }

  // Matches the numbers on the path that comes furthest with so many edits, and returns where it ends.
  matchStretch(aFrom, bFrom, width, height) {
    const { a, b, reached } = this;
    let best = { edits: 0, diagonal: 0, sum: -1 };
    for (let edits = 0; edits <= this.mostEdits; edits += 1) {
      for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
        const start = this.startOf(edits, diagonal);
        let i = start;
        while (i < width && i - diagonal < height && a[aFrom + i] === b[bFrom + i - diagonal]) i += 1;
        this.left -= i - start + 1;
        reached[edits * edits + edits + diagonal] = i;
        // A path may leave the region, and then never ends in it.
        if (i <= width && i - diagonal <= height && 2 * i - diagonal > best.sum) best = { edits, diagonal, sum: 2 * i - diagonal };
      }
      if (best.sum === width + height) break;
    }
    this.matchPath(best, aFrom, bFrom);
    const i = (best.sum + best.diagonal) / 2;
    return [aFrom + i, bFrom + i - best.diagonal];
  }

  // Whether the best path with so many edits comes to a diagonal from the one above, by an insertion.
  isInserted(edits, diagonal) {
    const { reached } = this, below = (edits - 1) ** 2 + edits - 1 + diagonal - 1;
    return diagonal === -edits || (diagonal !== edits && reached[below] < reached[below + 2]);
  }

  // Where a path is on its diagonal after its last edit. Those with one edit less are a row before, by diagonal.
  startOf(edits, diagonal) {
    if (!edits) return 0;
    const before = (edits - 1) ** 2 + edits - 1 + diagonal;
    return this.isInserted(edits, diagonal) ? this.reached[before + 1] : this.reached[before - 1] + 1;
  }

  matchPath({ edits, diagonal }, aFrom, bFrom) {
    for (; edits >= 0; edits -= 1) {
      const start = this.startOf(edits, diagonal);
      for (let i = this.reached[edits * edits + edits + diagonal] - 1; i >= start; i -= 1) this.partners[aFrom + i] = bFrom + i - diagonal;
      diagonal += this.isInserted(edits, diagonal) ? 1 : -1;
    }
  }
}
