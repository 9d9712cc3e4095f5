// Controls for values without parts: a choice of words, a number with all its digits, a text.

import { textsOf } from "./contract.js";
import { choice, make } from "./dom.js";
import { JsonError, parse, print } from "./json.js";

/** In the place of a value: the member is not sent. */
export const ABSENT = Symbol("absent");
const LONG = 256;

/** Which control a shape has: "words", "number", "text", or "parts" where the kind of value is chosen first. */
export function styleOf(shape, optional) {
  if (shape.branches.length > 1) return "parts";
  const [branch] = shape.branches;
  if (branch.kind === "boolean" || (branch.kind === "string" && textsOf(branch.limits).length)) return "words";
  if (branch.kind === "integer" || branch.kind === "number") return "number";
  return branch.kind === "string" && !optional && !shape.nullable ? "text" : "parts";
}

/** A select of everything that the member may be. */
export function wordsControl(shape, optional, value, set, attributes) {
  const [branch] = shape.branches;
  const known =
    branch.kind === "boolean"
      ? "const" in branch.limits
        ? [branch.limits.const]
        : [true, false]
      : textsOf(branch.limits);
  const values = [...(optional ? [ABSENT] : []), ...known, ...(shape.nullable ? [null] : [])];
  if (!values.includes(value)) values.push(value);
  const text = (one) => (one === ABSENT ? "not sent" : typeof one === "string" ? one : print(one));
  const change = (event) => set(values[Number(event.target.value)]);
  return choice(
    { ...attributes, change },
    values.map((one, index) => [String(index), text(one)]),
    String(values.indexOf(value)),
  );
}

/** A line for a number: empty is not sent, `null` is null; what is no number stays a text, which the rules refuse. */
export function numberControl(shape, optional, value, set, attributes) {
  const read = (text) => {
    if (text.trim() === "") return optional ? ABSENT : "";
    try {
      const found = parse(text);
      return ["bigint", "number"].includes(typeof found) || found === null ? found : text;
    } catch (error) {
      if (error instanceof JsonError) return text;
      throw error;
    }
  };
  const shown = value === ABSENT ? "" : typeof value === "string" ? value : print(value);
  const mode = shape.branches[0].kind === "integer" && !(shape.branches[0].limits.minimum < 0) ? "numeric" : "text";
  const fallback = shape.default === undefined || shape.default === null ? null : print(shape.default);
  return make("input", {
    ...attributes,
    type: "text",
    inputmode: mode,
    autocomplete: "off",
    placeholder: optional ? (fallback === null ? "not sent" : `not sent (${fallback})`) : "",
    value: shown,
    input: (event) => set(read(event.target.value)),
  });
}

/** A line, or an area where the text may be long. */
export function textControl(limits, value, set, attributes) {
  const shown = typeof value === "string" ? value : print(value);
  const input = (event) => set(event.target.value);
  if (limits.maxLength !== undefined && limits.maxLength <= LONG) {
    return make("input", { ...attributes, type: "text", autocomplete: "off", value: shown, input });
  }
  return make("textarea", { ...attributes, class: "text", rows: "1", input }, shown);
}

/** An area for an object of the client's own, as JSON; what cannot be read stays a text, which the rules refuse. */
export function jsonControl(value, set, attributes) {
  const read = (text) => {
    try {
      return parse(text);
    } catch (error) {
      if (error instanceof JsonError) return text;
      throw error;
    }
  };
  const shown = typeof value === "string" ? value : print(value, 2);
  const rows = String(Math.min(12, shown.split("\n").length + 1));
  return make(
    "textarea",
    { ...attributes, class: "code", rows, spellcheck: "false", input: (event) => set(read(event.target.value)) },
    shown,
  );
}
