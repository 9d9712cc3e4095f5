// Judges the members of a request one by one, in the contract's order: each fault with its path, code and a sentence.

import { limitsOf, textsOf } from "./contract.js";
import { print } from "./json.js";

const SHOWN = 100;

/** A path as errors name it: messages[0].role. */
export function pathText(path) {
  return path
    .map((key) => (typeof key === "number" ? `[${key}]` : `.${key}`))
    .join("")
    .replace(/^\./, "");
}

/** Whether a value has a JSON type; a whole number with a point is an integer. */
export function isKind(value, kind) {
  if (kind === "string" || kind === "boolean") return typeof value === kind;
  if (kind === "list") return Array.isArray(value);
  if (kind === "object") return value instanceof Map;
  if (kind === "number") return typeof value === "number" || typeof value === "bigint";
  if (kind === "integer")
    return (
      typeof value === "bigint" || (typeof value === "number" && (Number.isInteger(value) || !Number.isFinite(value)))
    );
  return value !== null;
}

/** The faults of the members of an object of a model. */
export function fieldFaults(model, value, facts, path = []) {
  const faults = [];
  for (const member of model.members.values()) {
    const at = [...path, member.name];
    if (value.has(member.name)) faults.push(...shapeFaults(member.shape, value.get(member.name), facts, at));
    else if (member.required) {
      faults.push({
        path: at,
        code: "missing",
        message: `${pathText(at)} is required and was not sent; send ${allowedOf(member.shape, facts)}`,
      });
    }
  }
  if (!faults.length) {
    for (const key of model.refusedKeys.filter((name) => value.has(name))) {
      const at = [...path, key];
      faults.push({ path: at, code: "out_of_range", message: `${pathText(at)} must not be sent; the server sets it` });
    }
  }
  return faults;
}

function shapeFaults(shape, value, facts, path) {
  const wrong = (code) => [
    { path, code, message: `${pathText(path)} was given ${shown(value)}; it must be ${allowedOf(shape, facts)}` },
  ];
  if (value === null) return shape.nullable ? [] : wrong("wrong_type");
  const branch = shape.branches.find((one) => one.kind === "any" || isKind(value, one.kind));
  if (!branch) return wrong("wrong_type");
  const limits = limitsOf(shape, branch, facts);
  const code = CHECKS[branch.kind]?.(value, limits);
  if (code) return wrong(code);
  if (branch.kind === "list" && branch.items)
    return value.flatMap((item, index) => shapeFaults(branch.items, item, facts, [...path, index]));
  return branch.model ? fieldFaults(branch.model, value, facts, path) : [];
}

const CHECKS = {
  string(value, limits) {
    const known = textsOf(limits);
    if (known.length) {
      const fits = limits["x-ignore-case"] ? known.includes(value.toLowerCase()) : known.includes(value);
      return fits ? "" : "out_of_range";
    }
    const length = limits.minLength !== undefined || limits.maxLength !== undefined ? codePoints(value) : 0;
    if (length < (limits.minLength ?? 0)) return "out_of_range";
    if (limits.maxLength !== undefined && length > limits.maxLength) return "too_long";
    // Without the flag m, $ is the very end here, as in the contract.
    return limits.pattern && !new RegExp(limits.pattern, "u").test(value) ? "out_of_range" : "";
  },
  integer(value, limits) {
    return Number.isFinite(Number(value)) || typeof value === "bigint" ? CHECKS.number(value, limits) : "out_of_range";
  },
  number(value, limits) {
    const { minimum, exclusiveMinimum, maximum, exclusiveMaximum } = limits;
    const banned = limits.not?.enum ?? ("const" in (limits.not ?? {}) ? [limits.not.const] : []);
    const outside =
      value < minimum ||
      value <= exclusiveMinimum ||
      value > maximum ||
      value >= exclusiveMaximum ||
      value === Infinity ||
      value === -Infinity ||
      banned.some((one) => one == value); // exact between BigInt and Number
    return outside ? "out_of_range" : "";
  },
  boolean(value, limits) {
    return "const" in limits && value !== limits.const ? "out_of_range" : "";
  },
  list(value, limits) {
    if (value.length < (limits.minItems ?? 0)) return "out_of_range";
    return limits.maxItems !== undefined && value.length > limits.maxItems ? "too_long" : "";
  },
};

/** Members that the contract does not know, an object's own first; objects of the client's own are left out. */
export function unknownPaths(model, value, path = []) {
  const own = model.freeForm
    ? []
    : [...value.keys()].filter((key) => !model.members.has(key)).map((key) => [...path, key]);
  const below = [...model.members.values()].flatMap((member) => {
    return objectsIn(member.shape, value.get(member.name), [...path, member.name]).flatMap((found) =>
      unknownPaths(found.model, found.value, found.path),
    );
  });
  return [...own, ...below];
}

/** The objects of models in a value, with their paths. */
export function objectsIn(shape, value, path) {
  if (value instanceof Map) {
    const model = shape.branches.find((branch) => branch.kind === "object")?.model;
    return model ? [{ model, value, path }] : [];
  }
  const items = Array.isArray(value) ? shape.branches.find((branch) => branch.kind === "list")?.items : null;
  return items ? value.flatMap((item, index) => objectsIn(items, item, [...path, index])) : [];
}

function allowedOf(shape, facts) {
  return facts.openai_form ? shape.openaiAllowed : shape.allowed;
}

function codePoints(text) {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

function shown(value) {
  if (Array.isArray(value)) return value.length ? `a list of ${value.length} items` : "an empty list";
  if (value instanceof Map) return "an object";
  const text = print(typeof value === "string" ? value.slice(0, SHOWN) : value);
  return text.length > SHOWN ? `${text.slice(0, SHOWN - 3)}...` : text;
}
