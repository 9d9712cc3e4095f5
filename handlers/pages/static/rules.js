// The contract's cross-field rules and normalisations, evaluated in CEL as the contract writes them.

import { CelScalar, celEnv, celMethod, celUint, isCelError, listType, parse, plan } from "./cel.js";
import { isKind, objectsIn } from "./fields.js";

const INT32 = 2n ** 31n;
const INT64 = 2n ** 63n;
const ENVIRONMENT = celEnv({
  funcs: [
    celMethod("sum", listType(CelScalar.DYN), [], CelScalar.DYN, function () {
      return [...this].reduce((total, number) => total + number, 0n);
    }),
    celMethod("distinct", listType(CelScalar.DYN), [], listType(CelScalar.DYN), function () {
      return [...new Set(this)];
    }),
  ],
});

/** Compiles expressions once. */
export class Rules {
  constructor() {
    this.plans = new Map();
  }

  /** Whether an expression holds for an object. Throws where it cannot be evaluated: a fault of the contract. */
  holds(expression, self, facts) {
    if (!this.plans.has(expression)) this.plans.set(expression, plan(ENVIRONMENT, parse(expression)));
    const found = this.plans.get(expression)({
      self,
      server: { features: facts.features, model_type: facts.model_type },
    });
    if (isCelError(found)) throw new Error(`${expression}: ${found.message}`);
    return found;
  }

  /** The rules that a request breaks, in the order in which they are asked; its members hold by themselves. */
  broken(model, value, facts) {
    return this.below(model, this.normalised(model, value, facts), facts, []);
  }

  below(model, value, facts, path) {
    const inner = [...model.members.values()].flatMap((member) => {
      const objects = objectsIn(member.shape, value.get(member.name), [...path, member.name]);
      return objects.flatMap((found) => this.below(found.model, found.value, facts, found.path));
    });
    if (!model.rules.length) return inner;
    const self = toCel(model, value);
    const own = model.rules.filter((rule) => {
      const relaxed = rule.relaxable && facts.relaxed_rules.includes(rule.id);
      return !relaxed && !this.holds(rule.rule, self, facts);
    });
    return [
      ...inner,
      ...own.map((rule) => ({
        path: [...path, ...rule.fields[0].split(".")],
        code: rule.id,
        message: rule.message,
        fields: rule.fields.map((name) => [...path, ...name.split(".")]),
      })),
    ];
  }

  /** A copy of a request as the server takes it: null is absent, and the contract's normalisations are done. */
  normalised(model, value, facts) {
    const made = new Map([...value].filter(([, inner]) => inner !== null));
    for (const step of model.normalise) {
      const given = made.get(step.field);
      if (step.kind === "empty-is-null" && given?.length === 0) made.delete(step.field);
      if (step.kind === "drop-outside-int32" && given) {
        made.set(
          step.field,
          given.map((number) => BigInt(number)).filter((number) => -INT32 <= number && number < INT32),
        );
      }
      if (step.kind === "set-when" && this.holds(step.when, toCel(model, made), facts))
        made.set(step.field, step.value);
    }
    return made;
  }
}

/** An object as CEL sees it: members that are null are left out, numbers have the type of their member. */
function toCel(model, value) {
  const made = {};
  for (const [key, inner] of value) {
    const shape = model.members.get(key)?.shape;
    if (inner !== null) made[key] = shape ? valueToCel(shape, inner) : freeToCel(inner);
  }
  return made;
}

function valueToCel(shape, value) {
  const branch = shape.branches.find((one) => isKind(value, one.kind));
  if (!branch) return freeToCel(value);
  if (branch.kind === "integer") return integer(BigInt(value));
  if (branch.kind === "number") return Number(value);
  if (branch.kind === "list" && branch.items) return value.map((item) => valueToCel(branch.items, item));
  return branch.model ? toCel(branch.model, value) : freeToCel(value);
}

function freeToCel(value) {
  if (value instanceof Map) return Object.fromEntries([...value].map(([key, inner]) => [key, freeToCel(inner)]));
  if (Array.isArray(value)) return value.map(freeToCel);
  return typeof value === "bigint" ? integer(value) : value;
}

function integer(value) {
  if (-INT64 <= value && value < INT64) return value;
  return 0n <= value && value < 2n * INT64 ? celUint(value) : Number(value);
}
