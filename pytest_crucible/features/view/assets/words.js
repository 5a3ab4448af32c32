// Words of a text, for comparing two texts.

// Writing without blanks between words. Korean has them.
const SCRIPTS = ["Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar"];
const UNSPACED = `[${SCRIPTS.map((script) => `\\p{Script=${script}}`).join("")}]`;
const RUN = new RegExp(`${UNSPACED}+`, "gv");
// A run without blanks, a word (an emoji is one, with what it is joined to), or a sign.
const PART = new RegExp(`(${UNSPACED}+)|[[\\p{L}\\p{N}\\p{M}_\\u200d\\u{10000}-\\u{10ffff}]--${UNSPACED}]+|\\S`, "gv");
// Characters of a text that Intl.Segmenter divides into words, 15 microseconds each; of more, every character is a word.
const MOST_SEGMENTED = 3_000;

function segmenterFor(text) {
  let count = 0;
  for (const [run] of text.matchAll(RUN)) if ((count += run.length) > MOST_SEGMENTED) return null;
  return count && globalThis.Intl?.Segmenter ? new Intl.Segmenter(undefined, { granularity: "word" }) : null;
}

// Returns where each word and each sign of a text starts and ends. Blanks lie between them.
export function findWords(text) {
  const starts = new Int32Array(text.length), ends = new Int32Array(text.length);
  const segmenter = segmenterFor(text);
  let count = 0;
  const add = (start, end) => { starts[count] = start; ends[count] = end; count += 1; return end; };
  for (const { 0: part, 1: run, index } of text.matchAll(PART)) {
    if (!run) add(index, index + part.length);
    else {
      let start = index;
      for (const word of segmenter?.segment(run) ?? run) start = add(start, start + (word.segment ?? word).length);
    }
  }
  return { text, count, starts, ends };
}

// Numbers the words of several texts: equal words have equal numbers, from 0. Returns the numbers of each text, and how many there are.
export function numberWords(texts) {
  const table = new Map();
  return { numbered: texts.map((words) => numbersOf(words, table)), different: table.size };
}

function numbersOf({ text, count, starts, ends }, table) {
  const numbers = new Int32Array(count);
  for (let place = 0; place < count; place += 1) {
    const word = text.slice(starts[place], ends[place]);
    const number = table.get(word) ?? table.size;
    if (number === table.size) table.set(word, number);
    numbers[place] = number;
  }
  return numbers;
}
