// Words of a text, for comparing two texts.

const BLANK = 0, WORD = 1, SIGN = 2, UNSPACED = 3, UNCLASSIFIED = 255;
// Writing without blanks between words. Korean has them.
const WITHOUT_BLANKS = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;
// Characters of a text that Intl.Segmenter divides into words, 15 microseconds each; of more, every character is a word.
const MOST_SEGMENTED = 3_000;
const classes = new Uint8Array(0x10000).fill(UNCLASSIFIED);
// Halves of a pair are never parted.
classes.fill(WORD, 0xd800, 0xe000);

function classify(code) {
  const character = String.fromCharCode(code);
  if (/\s/.test(character)) return BLANK;
  if (WITHOUT_BLANKS.test(character)) return UNSPACED;
  return /[\p{L}\p{N}\p{M}_\u200d]/u.test(character) ? WORD : SIGN;
}

function classOf(code) {
  const known = classes[code];
  return known === UNCLASSIFIED ? (classes[code] = classify(code)) : known;
}

// The end of the word, sign or blanks that begin at a place.
function endOf(text, start, kind) {
  let end = start + 1;
  if (kind === SIGN) return end;
  while (end < text.length && classOf(text.charCodeAt(end)) === kind) end += 1;
  return end;
}

// Returns the ends of the words of a run without blanks.
function segments(text, start, end, segmenter) {
  if (!segmenter) return Array.from({ length: end - start }, (_, place) => start + place + 1);
  return Array.from(segmenter.segment(text.slice(start, end)), ({ index, segment }) => start + index + segment.length);
}

function segmenterFor(text) {
  if (!globalThis.Intl?.Segmenter) return null;
  let count = 0;
  for (let place = 0; place < text.length && count <= MOST_SEGMENTED; place += 1) {
    if (classOf(text.charCodeAt(place)) === UNSPACED) count += 1;
  }
  return count && count <= MOST_SEGMENTED ? new Intl.Segmenter(undefined, { granularity: "word" }) : null;
}

// Returns where each word and each sign of a text starts and ends. Blanks lie between them.
export function findWords(text) {
  const starts = new Int32Array(text.length), ends = new Int32Array(text.length);
  const segmenter = segmenterFor(text);
  let count = 0;
  const add = (start, end) => { starts[count] = start; ends[count] = end; count += 1; };
  for (let start = 0, end; start < text.length; start = end) {
    const kind = classOf(text.charCodeAt(start));
    end = endOf(text, start, kind);
    if (kind === UNSPACED) segments(text, start, end, segmenter).reduce((from, to) => (add(from, to), to), start);
    else if (kind !== BLANK) add(start, end);
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
