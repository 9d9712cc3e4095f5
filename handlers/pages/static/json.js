// JSON text and values, exact both ways: integers are BigInt, other numbers are Number, objects are Map.

const DEEPEST = 400;
const NUMBER = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?/y;
const PLAIN = /[^"\\\u0000-\u001f]+/y;
const SPACE = /[ \t\n\r]*/y;
const WORDS = [
  ["true", true],
  ["false", false],
  ["null", null],
];
const ESCAPES = { '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };

/** Why a text is no JSON that the server reads; `at` counts UTF-16 units. */
export class JsonError extends Error {
  constructor(message, at) {
    super(message);
    this.at = at;
  }
}

/** Reads a text as the server does: no key twice, no half of a surrogate pair, nothing after the value. */
export function parse(text) {
  const reader = new Reader(text);
  reader.space();
  if (reader.at === text.length) throw new JsonError("The body is empty; a JSON object is expected", 0);
  const value = reader.value(0);
  reader.space();
  if (reader.at < text.length) reader.fail("something stands behind the value");
  return value;
}

class Reader {
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  fail(reason) {
    const before = this.text.slice(0, this.at).split("\n");
    throw new JsonError(
      `This is not valid JSON: ${reason} (line ${before.length}, column ${before.at(-1).length + 1})`,
      this.at,
    );
  }

  match(pattern) {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found) this.at = pattern.lastIndex;
    return found;
  }

  space() {
    this.match(SPACE);
  }

  next(mark) {
    if (this.text[this.at] !== mark) return false;
    this.at += 1;
    return true;
  }

  value(depth) {
    if (depth > DEEPEST) this.fail("it is nested too deep");
    if (this.next("{")) return this.object(depth);
    if (this.next("[")) return this.list(depth);
    if (this.next('"')) return this.string();
    for (const [word, value] of WORDS) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return value;
      }
    }
    const found = this.match(NUMBER);
    if (!found) this.fail("a value is missing");
    return found[1] || found[2] ? Number(found[0]) : BigInt(found[0]);
  }

  object(depth) {
    const made = new Map();
    this.space();
    if (this.next("}")) return made;
    do {
      this.space();
      if (!this.next('"')) this.fail("a key in quotes is missing");
      const key = this.string();
      if (made.has(key)) this.fail(`the key ${JSON.stringify(key.slice(0, 100))} stands twice`);
      this.space();
      if (!this.next(":")) this.fail("a colon is missing");
      this.space();
      made.set(key, this.value(depth + 1));
      this.space();
    } while (this.next(","));
    if (!this.next("}")) this.fail("a comma or } is missing");
    return made;
  }

  list(depth) {
    const made = [];
    this.space();
    if (this.next("]")) return made;
    do {
      this.space();
      made.push(this.value(depth + 1));
      this.space();
    } while (this.next(","));
    if (!this.next("]")) this.fail("a comma or ] is missing");
    return made;
  }

  string() {
    const parts = [];
    for (;;) {
      const found = this.match(PLAIN);
      if (found) parts.push(found[0]);
      if (this.next('"')) break;
      if (!this.next("\\"))
        this.fail(this.at < this.text.length ? "a control character stands in a string" : "a string has no end");
      parts.push(this.escape());
    }
    const made = parts.join("");
    if (!made.isWellFormed()) this.fail("half of a surrogate pair stands in a string");
    return made;
  }

  escape() {
    const mark = this.text[this.at];
    const hex = mark === "u" ? /^[0-9a-fA-F]{4}/.exec(this.text.slice(this.at + 1, this.at + 5)) : null;
    if (!hex && ESCAPES[mark] === undefined) this.fail("an escape is broken");
    this.at += hex ? 5 : 1;
    return hex ? String.fromCharCode(parseInt(hex[0], 16)) : ESCAPES[mark];
  }
}

/** The text of a value; with `indent` spaces a level, or on one line. */
export function print(value, indent = 0, level = 0) {
  const open = indent ? `\n${" ".repeat(indent * (level + 1))}` : "";
  const close = indent ? `\n${" ".repeat(indent * level)}` : "";
  const between = indent ? `,${open}` : ", ";
  if (value instanceof Map) {
    const members = [...value].map(([key, inner]) => `${JSON.stringify(key)}: ${print(inner, indent, level + 1)}`);
    return members.length ? `{${open}${members.join(between)}${close}}` : "{}";
  }
  if (Array.isArray(value)) {
    const items = value.map((inner) => print(inner, indent, level + 1));
    return items.length ? `[${open}${items.join(between)}${close}]` : "[]";
  }
  if (typeof value === "bigint") return value.toString();
  if (typeof value === "number") return printNumber(value);
  return JSON.stringify(value);
}

function printNumber(value) {
  if (!Number.isFinite(value)) return value > 0 ? "1e999" : "-1e999";
  const text = Object.is(value, -0) ? "-0" : String(value);
  return /[.e]/.test(text) ? text : `${text}.0`;
}

/** The same value with plain objects in the place of maps; numbers stay as they are. */
export function plain(value) {
  if (Array.isArray(value)) return value.map(plain);
  if (!(value instanceof Map)) return value;
  return Object.fromEntries([...value].map(([key, inner]) => [key, plain(inner)]));
}
