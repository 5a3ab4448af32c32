// The words that two sequences have in common, by Myers' algorithm in linear space, with a bounded number of steps.

// About 0.1 s. Sequences that differ in two thousand places need no more.
export const MOST_STEPS = 8_000_000;

// Returns for each number of `a` the place of its partner in `b` (-1 without one), and whether there is no longer common sequence.
export function matchNumbers(a, b, different, steps = MOST_STEPS) {
  const left = sharedNumbers(a, b, different), right = sharedNumbers(b, a, different);
  const search = new Search(left.numbers, right.numbers, steps);
  search.run();
  const partners = new Int32Array(a.length).fill(-1);
  search.partners.forEach((partner, place) => { if (partner >= 0) partners[left.places[place]] = right.places[partner]; });
  return { partners, isShortest: search.isShortest };
}

// The numbers that the other sequence has too, and their places. The others have no partner, whatever the order is.
function sharedNumbers(numbers, others, different) {
  const isInOther = new Uint8Array(different);
  for (const number of others) isInOther[number] = 1;
  const places = new Int32Array(numbers.length);
  let count = 0;
  for (let place = 0; place < numbers.length; place += 1) if (isInOther[numbers[place]]) places[count++] = place;
  return { places, numbers: places.subarray(0, count).map((place) => numbers[place]) };
}

class Search {
  constructor(a, b, steps) {
    const size = a.length + b.length + 3;
    Object.assign(this, { a, b, left: steps, middle: b.length + 1, isShortest: true });
    // Edits after which a region is divided at the furthest path: then all regions together take about the steps there are.
    this.mostEdits = Math.max(64, Math.floor(steps / size));
    // How far the paths from each corner of a region have come, by diagonal.
    this.reached = [new Int32Array(size), new Int32Array(size)];
    this.partners = new Int32Array(a.length).fill(-1);
  }

  run() {
    const regions = [[0, this.a.length, 0, this.b.length]];
    while (regions.length) {
      const region = this.trim(...regions.pop());
      if (!region) continue;
      if (this.left <= 0) this.isShortest = false;
      else {
        const [aStart, aEnd, bStart, bEnd] = region, [i, j] = this.split(...region);
        regions.push([i, aEnd, j, bEnd], [aStart, i, bStart, j]);
      }
    }
  }

  // Matches what a region begins and ends with; returns the rest, or null where one side has nothing left.
  trim(aStart, aEnd, bStart, bEnd) {
    const { a, b, partners } = this;
    while (aStart < aEnd && bStart < bEnd && a[aStart] === b[bStart]) partners[aStart++] = bStart++;
    while (aStart < aEnd && bStart < bEnd && a[aEnd - 1] === b[bEnd - 1]) partners[--aEnd] = --bEnd;
    return aStart < aEnd && bStart < bEnd ? [aStart, aEnd, bStart, bEnd] : null;
  }

  // Returns where the paths from both corners of a region meet, or the end of the longest one after too many edits.
  split(aStart, aEnd, bStart, bEnd) {
    const size = { width: aEnd - aStart, height: bEnd - bStart };
    const ahead = this.begin(0, aStart, bStart, 1), behind = this.begin(1, aEnd - 1, bEnd - 1, -1);
    const isOdd = (size.width - size.height) & 1;
    for (let edits = 1; ; edits += 1) {
      const met = this.advance(ahead, isOdd ? behind : null, size);
      if (met) return [aStart + met[0], bStart + met[1]];
      const joined = this.advance(behind, isOdd ? null : ahead, size);
      if (joined) return [aEnd - joined[0], bEnd - joined[1]];
      if (edits < this.mostEdits && this.left > 0) continue;
      this.isShortest = false;
      const [i, j] = this.furthest(ahead, size);
      return [aStart + i, bStart + j];
    }
  }

  // Paths from one corner of a region, of which places are counted from there. `min` and `max` are their outermost diagonals.
  begin(side, aFrom, bFrom, sign) {
    const reached = this.reached[side];
    reached[this.middle] = 0;
    return { reached, aFrom, bFrom, sign, min: 0, max: 0 };
  }

  // Lengthens all paths by one edit and what is equal after it; returns where one meets a path of the other corner.
  advance(front, other, { width, height }) {
    const { a, b, middle } = this, { reached, aFrom, bFrom, sign } = front;
    this.widen(front, width, height);
    for (let diagonal = front.max; diagonal >= front.min; diagonal -= 2) {
      const before = reached[middle + diagonal - 1], after = reached[middle + diagonal + 1];
      const start = before >= after ? before + 1 : after;
      let i = start;
      while (i < width && i - diagonal < height && a[aFrom + sign * i] === b[bFrom + sign * (i - diagonal)]) i += 1;
      this.left -= i - start + 1;
      reached[middle + diagonal] = i;
      const opposite = width - height - diagonal;
      if (other === null || opposite < other.min || opposite > other.max) continue;
      if (i + other.reached[middle + opposite] >= width) return [i, i - diagonal];
    }
    return null;
  }

  // Allows one more diagonal on each side, within the region.
  widen(front, width, height) {
    const { reached } = front, { middle } = this;
    if (front.min > -height) reached[middle + --front.min - 1] = -1;
    else front.min += 1;
    if (front.max < width) reached[middle + ++front.max + 1] = -1;
    else front.max -= 1;
  }

  furthest({ reached, min, max }, { width, height }) {
    let best = [0, 0];
    for (let diagonal = max; diagonal >= min; diagonal -= 2) {
      const i = Math.min(reached[this.middle + diagonal], width, height + diagonal);
      if (2 * i - diagonal > best[0] + best[1]) best = [i, i - diagonal];
    }
    return best;
  }
}
