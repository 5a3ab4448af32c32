// Words of a text, for comparing two texts.

const BLANK = 1, SIGN = 2, WORD = 3, UNSPACED = 4;
// Writing without blanks between words. Korean has them.
const SCRIPTS = ["Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar"];
const IS_UNSPACED = new RegExp(`[${SCRIPTS.map((script) => `\\p{Script=${script}}`).join("")}]`, "u");
// An emoji is a word, with what it is joined to.
const IS_WORD = /[\p{L}\p{N}\p{M}_\u200d\u{10000}-\u{10ffff}]/u;
const CODES = 0x110000;
// Characters without blanks that Intl.Segmenter divides into words, 15 microseconds each; of more, every character is a word.
const MOST_SEGMENTED = 3_000;

// The kind of each character that occurred: a table is much faster than an expression for each part of a text.
const kinds = new Uint8Array(CODES);

function kindAt(text, place) {
  const code = text.codePointAt(place);
  return (kinds[code] ||= kindOf(String.fromCodePoint(code)));
}

function kindOf(character) {
  if (IS_UNSPACED.test(character)) return UNSPACED;
  if (IS_WORD.test(character)) return WORD;
  return /\s/.test(character) ? BLANK : SIGN;
}

const after = (text, place) => place + (text.codePointAt(place) > 0xffff ? 2 : 1);

function endOfKind(text, place, kind) {
  while (place < text.length && kindAt(text, place) === kind) place = after(text, place);
  return place;
}

// Null where every character without blanks is a word.
function segmenterFor(text) {
  let count = 0;
  for (let place = 0; place < text.length; place += 1) if (kindAt(text, place) === UNSPACED && ++count > MOST_SEGMENTED) return null;
  return count && globalThis.Intl?.Segmenter ? new Intl.Segmenter(undefined, { granularity: "word" }) : null;
}

// Returns where each word and each sign of a text starts and ends. Blanks lie between them.
export function findWords(text) {
  const words = { text, count: 0, starts: new Int32Array(text.length), ends: new Int32Array(text.length) };
  const segmenter = segmenterFor(text);
  for (let start = 0, end; start < text.length; start = end) {
    const kind = kindAt(text, start), isSegmented = kind === UNSPACED && segmenter;
    end = kind === WORD || isSegmented ? endOfKind(text, start, kind) : after(text, start);
    if (isSegmented) for (const { index, segment } of segmenter.segment(text.slice(start, end))) add(words, start + index, segment.length);
    else if (kind !== BLANK) add(words, start, end - start);
  }
  return words;
}

function add(words, start, length) {
  words.starts[words.count] = start;
  words.ends[words.count++] = start + length;
}

// Numbers the words of several texts: equal words have equal numbers, from 0. Returns the numbers of each text, and how many there are.
export function numberWords(texts) {
  const table = { of: new Map(), ofUnits: new Int32Array(0x10000).fill(-1), size: 0 };
  return { numbered: texts.map((words) => numbersOf(words, table)), different: table.size };
}

function numbersOf({ text, count, starts, ends }, table) {
  const { of, ofUnits } = table;
  const numbers = new Int32Array(count);
  for (let place = 0; place < count; place += 1) {
    const start = starts[place], end = ends[place];
    if (end - start === 1) {
      const unit = text.charCodeAt(start);
      if (ofUnits[unit] < 0) ofUnits[unit] = table.size++;
      numbers[place] = ofUnits[unit];
    } else {
      const word = text.slice(start, end);
      let number = of.get(word);
      if (number === undefined) of.set(word, number = table.size++);
      numbers[place] = number;
    }
  }
  return numbers;
}
