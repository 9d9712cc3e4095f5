// The whole verdict on a request: what the server would say of it, and everything else that is wrong with it.

import { fieldFaults, isKind, pathText, unknownPaths } from "./fields.js";
import { JsonError, parse } from "./json.js";
import { Rules } from "./rules.js";

/** A deployment without any feature. */
export const PLAIN = { features: [], model_type: "", openai_form: false, relaxed_rules: [], strict_unknown: false };

/** Judges requests of one contract; faults come in the server's order, so the first is its answer. */
export class Judge {
  constructor(contract) {
    this.contract = contract;
    this.rules = new Rules();
  }

  /** The faults of a body as text. */
  faultsOfText(operationId, text, facts) {
    try {
      return this.faults(operationId, parse(text), facts);
    } catch (error) {
      if (error instanceof JsonError) return [{ path: [], code: "json_invalid", message: error.message }];
      throw error;
    }
  }

  /** The faults of a body that has been read. */
  faults(operationId, value, facts) {
    const { model } = this.contract.operations.get(operationId);
    if (!isKind(value, "object")) return [{ path: [], code: "wrong_type", message: "the body must be an object" }];
    const faults = fieldFaults(model, value, facts);
    if (faults.length) return faults;
    if (facts.strict_unknown) {
      const unknown = unknownPaths(model, value);
      if (unknown.length)
        return unknown.map((path) => ({
          path,
          code: "unknown_field",
          message: `${pathText(path)} is not a field of this API`,
        }));
    }
    return this.rules.broken(model, value, facts);
  }
}
