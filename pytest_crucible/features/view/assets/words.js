// Words of a text, for comparing two texts.

const BLANK = 1, SIGN = 2, WORD = 3, UNSPACED = 4;
// Writing without blanks between words. Korean has them.
const SCRIPTS = ["Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar"];
const IS_UNSPACED = new RegExp(`[${SCRIPTS.map((script) => `\\p{Script=${script}}`).join("")}]`, "u");
// An emoji is a word, with what it is joined to, and so is what a reply could not be decoded to.
const IS_WORD = /[\p{L}\p{N}\p{M}_\u200d\ufffd\u{10000}-\u{10ffff}]/u;
const CODES = 0x110000;
// Characters without blanks that Intl.Segmenter divides into words, 15 microseconds each; of more, every character is a word.
const MOST_SEGMENTED = 3_000;

// The kind of each character that occurred: a table is much faster than an expression for each part of a text.
const kinds = new Uint8Array(CODES);

function kindOfCode(code) {
  return kinds[code] || (kinds[code] = kindOf(String.fromCodePoint(code)));
}

function kindOf(character) {
  if (IS_UNSPACED.test(character)) return UNSPACED;
  if (IS_WORD.test(character)) return WORD;
  return /\s/.test(character) ? BLANK : SIGN;
}

const after = (place, code) => place + (code > 0xffff ? 2 : 1);

function endOfKind(text, place, kind) {
  while (place < text.length) {
    const code = text.codePointAt(place);
    if (kindOfCode(code) !== kind) break;
    place = after(place, code);
  }
  return place;
}

// Returns where each word and each sign of a text starts and ends. Blanks lie between them.
export function findWords(text) {
  const words = emptyWords(text);
  let unspaced = 0;
  for (let start = 0, end; start < text.length; start = end) {
    const code = text.codePointAt(start), kind = kindOfCode(code);
    end = after(start, code);
    if (kind === WORD) end = endOfKind(text, end, kind);
    if (kind !== BLANK) add(words, start, end - start);
    unspaced += kind === UNSPACED;
  }
  return unspaced && unspaced <= MOST_SEGMENTED && globalThis.Intl?.Segmenter ? segment(words) : words;
}

function emptyWords(text) {
  return { text, count: 0, starts: new Int32Array(text.length), ends: new Int32Array(text.length) };
}

// Made where it is needed: 20 ms.
let segmenter;

// Returns the same words, but for those of characters without blanks between them.
function segment({ text, count, starts, ends }) {
  const words = emptyWords(text);
  for (let place = 0; place < count; place += 1) {
    const start = starts[place], isUnspaced = kindOfCode(text.codePointAt(start)) === UNSPACED;
    const end = isUnspaced ? endOfKind(text, start, UNSPACED) : ends[place];
    if (end === ends[place]) add(words, start, end - start);
    else {
      segmenter ??= new Intl.Segmenter(undefined, { granularity: "word" });
      for (const { index, segment: word } of segmenter.segment(text.slice(start, end))) add(words, start + index, word.length);
      while (ends[place] < end) place += 1;
    }
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
