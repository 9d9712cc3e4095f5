// The published contract as models and shapes: what each member of a request may be.

import { parse, plain } from "./json.js";

const KINDS = {
  string: "string",
  integer: "integer",
  number: "number",
  boolean: "boolean",
  array: "list",
  object: "object",
};

/** Reads the text of openapi.json. */
export function readContract(text) {
  return new Contract(plain(parse(text)));
}

class Contract {
  constructor(document) {
    this.document = document;
    this.models = new Map();
    this.operations = new Map();
    for (const [path, methods] of Object.entries(document.paths)) {
      for (const [method, node] of Object.entries(methods)) {
        const body = node.requestBody?.content["application/json"];
        this.operations.set(node.operationId, {
          id: node.operationId,
          method: method.toUpperCase(),
          path,
          summary: node.summary,
          plane: node["x-plane"] ?? "business",
          parameters: (node.parameters ?? []).map((parameter) => this.resolve(parameter)),
          examples: Object.values(body?.examples ?? {}),
          model: body ? this.model(body.schema) : null,
        });
      }
    }
  }

  /** A node with its references followed; what stands beside a reference wins. */
  resolve(node) {
    let beside = {};
    while (node && node.$ref) {
      const { $ref, ...rest } = node;
      beside = { ...rest, ...beside };
      node = $ref
        .slice(2)
        .split("/")
        .reduce((found, key) => found[key.replace("~1", "/").replace("~0", "~")], this.document);
    }
    return { ...node, ...beside };
  }

  /** The model of an object schema with members. */
  model(node) {
    const name = node.$ref?.split("/").at(-1) ?? "";
    if (name && this.models.has(name)) return this.models.get(name);
    const schema = this.resolve(node);
    const required = new Set(schema.required ?? []);
    const model = {
      name,
      members: new Map(),
      freeForm: Boolean(schema["x-free-form"]),
      refusedKeys: schema.propertyNames?.not?.enum ?? [],
      normalise: schema["x-normalize"] ?? [],
      base: schema["x-base"] ?? {},
      rules: (schema["x-validations"] ?? []).map((entry) => {
        return { id: entry.id ?? entry.$ref.split("/").at(-1), ...this.resolve(entry) };
      }),
    };
    if (name) this.models.set(name, model);
    for (const [key, inner] of Object.entries(schema.properties)) {
      model.members.set(key, { name: key, required: required.has(key), shape: this.shape(inner) });
    }
    return model;
  }

  /** What a value may be: branches by JSON type, and null or not. */
  shape(node) {
    const schema = this.resolve(node);
    const union = schema.oneOf ?? schema.anyOf;
    const about = {
      description: schema.description ?? "",
      default: schema.default,
      deprecated: Boolean(schema.deprecated),
      allowed: schema["x-allowed"] ?? "",
      openaiAllowed: schema["x-allowed-openai"] ?? schema["x-allowed"] ?? "",
      openaiForm: schema["x-openai-form"],
    };
    if (union) {
      const parts = union.filter((part) => part.type !== "null").map((part) => this.shape(part));
      const nullable = parts.length < union.length || parts.some((part) => part.nullable);
      return { ...about, nullable, branches: parts.flatMap((part) => part.branches) };
    }
    const types = [schema.type ?? []].flat();
    const branches = types.filter((type) => type !== "null").map((type) => this.branch(KINDS[type], schema, node));
    return {
      ...about,
      nullable: !types.length || types.includes("null"),
      branches: branches.length ? branches : [{ kind: "any", limits: {} }],
    };
  }

  branch(kind, schema, node) {
    const branch = { kind, limits: schema, model: null, items: null };
    if (kind === "object" && schema.properties) branch.model = this.model(node);
    if (kind === "list" && schema.items) branch.items = this.shape(schema.items);
    return branch;
  }
}

/** The limits of a branch that are in force: a member may have others where answers have OpenAI's form. */
export function limitsOf(shape, branch, facts) {
  return facts.openai_form && shape.openaiForm ? shape.openaiForm : branch.limits;
}

/** The only texts that a string may be; empty where it is free. */
export function textsOf(limits) {
  const known = "const" in limits ? [limits.const] : (limits.enum ?? []);
  return known.filter((text) => text !== null);
}
