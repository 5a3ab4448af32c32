// The difference of two texts, word by word.
import { countPartners, matchNumbers, MOST_STEPS } from "./shortest_edit.js";
import { findWords, numberWords } from "./words.js";

export const KEPT = 0, DELETED = 1, INSERTED = 2;
// Runs of common words that a page draws in a moment, even if they say nothing.
const MANY_RUNS = 10_000;

// Returns spans as [kind, start, end, ...] (`end` is exclusive; inserted ones are of `after`, all others of `before`), the numbers
// of words, whether few are in both, and whether no shorter list exists. Kept and deleted spans are `before`, kept and inserted `after`.
export function compareTexts(before, after, steps = MOST_STEPS) {
  const [left, right] = [findWords(before), findWords(after)];
  const { numbered: [a, b], different } = numberWords([left, right]);
  const { partners, isShortest } = matchNumbers(a, b, different, steps);
  const { shared, runs, isScattered } = countPartners(partners);
  const hasLittle = 10 * shared < Math.max(left.count, right.count) || (isScattered && runs > MANY_RUNS && !isShortest);
  // Single words that two long texts share by chance say nothing, and there are many.
  const kept = hasLittle && !isShortest ? 0 : shared;
  const spans = new Spans(left, right);
  for (let place = 0; kept && place < partners.length; place += 1) if (partners[place] >= 0) spans.keep(place, partners[place]);
  spans.finish();
  const words = { kept, deleted: left.count - kept, inserted: right.count - kept };
  return { spans: Int32Array.from(spans.rows), words, hasLittle, isShortest };
}

class Spans {
  constructor(left, right) {
    Object.assign(this, { left, right, rows: [], done: 0, doneRight: 0 });
  }

  // Adds a pair of equal words, and what stands before them.
  keep(place, partner) {
    const { left, right } = this;
    this.change(endBefore(left, place), left.starts[place], endBefore(right, partner), right.starts[partner]);
    this.add(KEPT, this.done, left.ends[place]);
    this.done = left.ends[place];
    this.doneRight = right.ends[partner];
  }

  // Adds what was deleted and inserted, up to the blanks between the last word and the next, which are kept where they are equal.
  change(blank, start, blankRight, startRight) {
    const isKept = isEqual(this.left.text, blank, start, this.right.text, blankRight, startRight);
    const end = isKept ? blank : start, endRight = isKept ? blankRight : startRight;
    this.add(DELETED, this.done, end);
    this.add(INSERTED, this.doneRight, endRight);
    this.done = end;
    this.doneRight = endRight;
  }

  finish() {
    const { left, right } = this;
    this.change(endBefore(left, left.count), left.text.length, endBefore(right, right.count), right.text.length);
    this.add(KEPT, this.done, left.text.length);
  }

  add(kind, start, end) {
    if (start === end) return;
    const { rows } = this;
    if (rows.at(-3) === kind && rows.at(-1) === start) rows[rows.length - 1] = end;
    else rows.push(kind, start, end);
  }
}

function endBefore({ ends }, place) {
  return place ? ends[place - 1] : 0;
}

// Compares parts of two texts without a copy of each: there is one between every two words.
function isEqual(text, start, end, other, otherStart, otherEnd) {
  if (end - start !== otherEnd - otherStart) return false;
  for (let k = 0; k < end - start; k += 1) if (text.charCodeAt(start + k) !== other.charCodeAt(otherStart + k)) return false;
  return true;
}
