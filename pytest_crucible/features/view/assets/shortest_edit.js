// The words that two sequences have in common, by Myers' algorithm in linear space, with a bounded number of steps.

// About 0.1 s. Sequences that differ in two thousand places need no more.
export const MOST_STEPS = 8_000_000;
const FURTHEST = 0x7fffffff;

// Returns for each number of `a` the place of its partner in `b` (-1 without one), and whether there is no longer common sequence.
export function matchNumbers(a, b, different, steps = MOST_STEPS) {
  const [left, right] = [shared(a, b, different), shared(b, a, different)];
  const search = new Search(left.numbers, right.numbers, steps);
  search.run();
  const partners = new Int32Array(a.length).fill(-1);
  search.partners.forEach((partner, place) => { if (partner >= 0) partners[left.places[place]] = right.places[partner]; });
  return { partners, isShortest: search.isShortest };
}

// The numbers that the other sequence has too, and their places. The others have no partner, whatever the order is.
function shared(numbers, others, different) {
  const isInOther = new Uint8Array(different);
  for (const number of others) isInOther[number] = 1;
  const places = new Int32Array(numbers.length);
  let count = 0;
  for (let place = 0; place < numbers.length; place += 1) {
    if (isInOther[numbers[place]]) places[count++] = place;
  }
  return { places, numbers: places.subarray(0, count).map((place) => numbers[place]) };
}

class Search {
  constructor(a, b, steps) {
    const diagonals = a.length + b.length + 3;
    this.a = a;
    this.b = b;
    this.left = steps;
    // Edits after which a region is divided at the furthest path: then all regions together take about the steps there are.
    this.mostEdits = Math.max(64, Math.floor(steps / diagonals));
    this.forward = new Int32Array(diagonals);
    this.backward = new Int32Array(diagonals);
    this.middle = b.length + 1;
    this.partners = new Int32Array(a.length).fill(-1);
    this.isShortest = true;
  }

  run() {
    const regions = [[0, this.a.length, 0, this.b.length]];
    while (regions.length) {
      const region = this.trim(...regions.pop());
      if (!region) continue;
      if (this.left <= 0) {
        this.isShortest = false;
        continue;
      }
      const [i, j] = this.split(...region);
      const [aStart, aEnd, bStart, bEnd] = region;
      regions.push([i, aEnd, j, bEnd], [aStart, i, bStart, j]);
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
    const low = aStart - bEnd, high = aEnd - bStart;
    const ahead = new Front(this.forward, this.middle, aStart - bStart, aStart, -1);
    const behind = new Front(this.backward, this.middle, aEnd - bEnd, aEnd, FURTHEST);
    const isOdd = (ahead.min - behind.min) & 1;
    for (let edits = 1; ; edits += 1) {
      ahead.widen(low, high);
      const met = this.goAhead(ahead, isOdd ? behind : null, aEnd, bEnd);
      if (met) return met;
      behind.widen(low, high);
      const joined = this.goBack(behind, isOdd ? null : ahead, aStart, bStart);
      if (joined) return joined;
      this.left -= (ahead.max - ahead.min + behind.max - behind.min) / 2 + 2;
      if (edits >= this.mostEdits || this.left <= 0) return this.divide(ahead, behind, aStart, aEnd, bStart, bEnd);
    }
  }

  goAhead(front, other, aEnd, bEnd) {
    const { a, b, middle } = this, { reached } = front;
    for (let diagonal = front.max; diagonal >= front.min; diagonal -= 2) {
      const before = reached[middle + diagonal - 1], after = reached[middle + diagonal + 1];
      let i = before >= after ? before + 1 : after;
      const from = i;
      while (i < aEnd && i - diagonal < bEnd && a[i] === b[i - diagonal]) i += 1;
      this.left -= i - from;
      reached[middle + diagonal] = i;
      if (other !== null && other.covers(diagonal) && other.reached[middle + diagonal] <= i) return [i, i - diagonal];
    }
    return null;
  }

  goBack(front, other, aStart, bStart) {
    const { a, b, middle } = this, { reached } = front;
    for (let diagonal = front.max; diagonal >= front.min; diagonal -= 2) {
      const before = reached[middle + diagonal - 1], after = reached[middle + diagonal + 1];
      let i = before < after ? before : after - 1;
      const from = i;
      while (i > aStart && i - diagonal > bStart && a[i - 1] === b[i - diagonal - 1]) i -= 1;
      this.left -= from - i;
      reached[middle + diagonal] = i;
      if (other !== null && other.covers(diagonal) && i <= other.reached[middle + diagonal]) return [i, i - diagonal];
    }
    return null;
  }

  // Returns the end of the longer of the two best paths.
  divide(ahead, behind, aStart, aEnd, bStart, bEnd) {
    this.isShortest = false;
    const inside = (i, diagonal) => {
      const at = Math.min(Math.max(i, aStart, bStart + diagonal), aEnd, bEnd + diagonal);
      return [at, at - diagonal];
    };
    const length = ([i, j]) => i + j;
    const ends = ahead.ends(this.middle).map(([i, diagonal]) => inside(i, diagonal));
    const starts = behind.ends(this.middle).map(([i, diagonal]) => inside(i, diagonal));
    const last = ends.reduce((best, end) => (length(end) > length(best) ? end : best));
    const first = starts.reduce((best, start) => (length(start) < length(best) ? start : best));
    return aEnd + bEnd - length(first) < length(last) - aStart - bStart ? last : first;
  }
}

// The furthest places on the diagonals that paths from one corner have reached.
class Front {
  constructor(reached, middle, diagonal, place, none) {
    Object.assign(this, { reached, middle, min: diagonal, max: diagonal, none });
    reached[middle + diagonal] = place;
  }

  // Allows one more edit, within the region.
  widen(low, high) {
    if (this.min > low) {
      this.min -= 1;
      this.reached[this.middle + this.min - 1] = this.none;
    } else this.min += 1;
    if (this.max < high) {
      this.max += 1;
      this.reached[this.middle + this.max + 1] = this.none;
    } else this.max -= 1;
  }

  covers(diagonal) {
    return this.min <= diagonal && diagonal <= this.max;
  }

  ends(middle) {
    const places = [];
    for (let diagonal = this.max; diagonal >= this.min; diagonal -= 2) places.push([this.reached[middle + diagonal], diagonal]);
    return places;
  }
}
