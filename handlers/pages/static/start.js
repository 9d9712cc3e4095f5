// Values to begin with: the smallest request of a model, the smallest value of a member.

import { textsOf } from "./contract.js";

/** Plain data with maps in the place of objects. */
export function mapped(value) {
  if (Array.isArray(value)) return value.map(mapped);
  if (value === null || typeof value !== "object") return value;
  return new Map(Object.entries(value).map(([key, inner]) => [key, mapped(inner)]));
}

/** A small value for a branch of a shape. */
export function startOf(branch) {
  const known = branch.kind === "string" ? textsOf(branch.limits) : [];
  const example = branch.limits.examples?.[0];
  if (known.length) return known[0];
  if (branch.kind === "object") return branch.model ? startOfModel(branch.model) : new Map();
  if (branch.kind === "list") return [startOf(branch.items.branches[0])];
  if (branch.kind === "boolean") return true;
  if (branch.kind === "integer" || branch.kind === "number") return 1n;
  return typeof example === "string" ? example : "";
}

/** The smallest object of a model: as the contract gives it, else its required members. */
export function startOfModel(model) {
  if (Object.keys(model.base).length) return mapped(model.base);
  const needed = [...model.members.values()].filter((member) => member.required);
  return new Map(needed.map((member) => [member.name, startOf(member.shape.branches[0])]));
}
