// The difference of two texts, word by word.
import { matchNumbers, MOST_STEPS } from "./shortest_edit.js";
import { findWords, numberWords } from "./words.js";

export const KEPT = 0, DELETED = 1, INSERTED = 2;

// Returns spans as [kind, start, end, ...] (`end` is exclusive; inserted ones are of `after`, all others of `before`), the numbers
// of words, and whether no shorter list of changes exists. Kept and deleted spans are `before`, kept and inserted ones `after`.
export function compareTexts(before, after, steps = MOST_STEPS) {
  const [left, right] = [findWords(before), findWords(after)];
  const { numbered: [a, b], different } = numberWords([left, right]);
  const { partners, isShortest } = matchNumbers(a, b, different, steps);
  const spans = new Spans(left, right);
  let kept = 0;
  partners.forEach((partner, place) => {
    if (partner < 0) return;
    kept += 1;
    spans.keep(place, partner);
  });
  spans.finish();
  const words = { kept, deleted: left.count - kept, inserted: right.count - kept };
  return { spans: Int32Array.from(spans.rows), words, isShortest };
}

class Spans {
  constructor(left, right) {
    Object.assign(this, { left, right, rows: [], done: 0, doneRight: 0 });
  }

  // Adds a pair of equal words, and what stands before them.
  keep(place, partner) {
    const { left, right } = this;
    const [start, startRight] = [left.starts[place], right.starts[partner]];
    const [blank, blankRight] = [place ? left.ends[place - 1] : 0, partner ? right.ends[partner - 1] : 0];
    this.change([blank, start], [blankRight, startRight]);
    this.add(KEPT, this.done, left.ends[place]);
    this.done = left.ends[place];
    this.doneRight = right.ends[partner];
  }

  // Adds what was deleted and inserted, up to the blanks between the last word and the next, which are kept where they are equal.
  change([blank, start], [blankRight, startRight]) {
    const isEqual = this.left.text.slice(blank, start) === this.right.text.slice(blankRight, startRight);
    const [end, endRight] = isEqual ? [blank, blankRight] : [start, startRight];
    this.add(DELETED, this.done, end);
    this.add(INSERTED, this.doneRight, endRight);
    this.done = end;
    this.doneRight = endRight;
  }

  finish() {
    const { left, right } = this;
    const ends = [left, right].map(({ text, count, ends }) => [count ? ends[count - 1] : 0, text.length]);
    this.change(...ends);
    this.add(KEPT, this.done, left.text.length);
  }

  add(kind, start, end) {
    if (start === end) return;
    const { rows } = this;
    if (rows.at(-3) === kind && rows.at(-1) === start) rows[rows.length - 1] = end;
    else rows.push(kind, start, end);
  }
}
