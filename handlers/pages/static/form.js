// The form of a request, made from the contract: members, lists, objects in objects, and what is wrong with them.

import { ABSENT, jsonControl, numberControl, styleOf, textControl, wordsControl } from "./controls.js";
import { choice, make } from "./dom.js";
import { isKind, pathText } from "./fields.js";
import { startOf } from "./start.js";

const KIND_NAMES = {
  string: "text",
  integer: "number",
  number: "number",
  boolean: "true or false",
  list: "list",
  object: "object",
  any: "JSON",
};

/** Shows a request in an element, and calls back whenever its value has changed. */
export class Form {
  constructor(place, changed) {
    this.place = place;
    this.changed = changed;
    this.facts = { openai_form: false };
  }

  /** Show a request of a model; the map is changed in place. */
  show(model, value) {
    this.model = model;
    this.value = value;
    this.draw();
  }

  /** Make the elements anew, after a change of structure; the focus stays where it was. */
  draw() {
    const focused = document.activeElement?.id;
    this.place.replaceChildren(...(this.model ? this.members(this.model, this.value, [], true) : []));
    if (focused && this.place.contains(document.getElementById(focused))) document.getElementById(focused).focus();
  }

  /** Put faults beside the members that they are about, each at the nearest one that is shown. */
  blame(faults) {
    for (const note of this.place.querySelectorAll(".fault")) note.textContent = "";
    for (const control of this.place.querySelectorAll("[aria-invalid]")) control.removeAttribute("aria-invalid");
    for (const [fault, path] of faults.flatMap((fault) =>
      (fault.fields ?? [fault.path]).map((path) => [fault, path]),
    )) {
      const row = this.rowOf(path);
      if (!row) continue;
      const note = row.querySelector(":scope > .fault");
      note.textContent = [note.textContent, `${fault.message} (${fault.code})`].filter(Boolean).join("; ");
      row.querySelector("input, select, textarea, button")?.setAttribute("aria-invalid", "true");
    }
  }

  /** The row of a path, or of the nearest member above it. */
  rowOf(path) {
    for (let length = path.length; length > 0; length -= 1) {
      const row = document.getElementById(`row:${pathText(path.slice(0, length))}`);
      if (row) return row;
    }
    return null;
  }

  members(model, value, path, whole) {
    const shown = [...model.members.values()].filter((member) => whole || member.required || value.has(member.name));
    const hidden = [...model.members.values()].filter((member) => !shown.includes(member));
    const extra = [...value.keys()].filter((key) => !model.members.has(key));
    return [
      ...shown.map((member) => this.row(member, value, [...path, member.name])),
      hidden.length ? this.adder(hidden, value, path) : null,
      extra.length ? make("p", { class: "hint" }, `Not of this API, edited as JSON: ${extra.join(", ")}`) : null,
    ].filter(Boolean);
  }

  /** A choice of members that are not there yet. */
  adder(hidden, value, path) {
    const id = `add:${pathText(path)}`;
    const options = [["", "Add a member ..."], ...hidden.map((member) => [member.name, member.name])];
    const change = (event) => {
      const member = hidden.find((one) => one.name === event.target.value);
      value.set(member.name, startOf(member.shape.branches[0]));
      this.redraw();
    };
    return make(
      "div",
      { class: "adder" },
      choice({ id, "aria-label": `Add a member to ${pathText(path)}`, change }, options, ""),
    );
  }

  row(member, container, path) {
    const { shape } = member;
    const get = () => (container.has(member.name) ? container.get(member.name) : ABSENT);
    const set = (value) => {
      if (value === ABSENT) container.delete(member.name);
      else container.set(member.name, value);
    };
    const allowed = this.facts.openai_form ? shape.openaiAllowed : shape.allowed;
    return this.rowAround(path, member.name, shape, !member.required, get, set, [
      make(
        "details",
        { class: "hint" },
        make(
          "summary",
          { id: `hint:${pathText(path)}` },
          allowed,
          shape.deprecated ? "; deprecated" : "",
          member.required ? "; required" : "",
        ),
        make("p", {}, shape.description.split("\n\n")[0]),
      ),
    ]);
  }

  rowAround(path, label, shape, optional, get, set, notes, beside = null) {
    const name = pathText(path);
    const id = `at:${name}`;
    const attributes = { id, "aria-describedby": `${notes.length ? `hint:${name} ` : ""}fault:${name}` };
    const style = styleOf(shape, optional);
    const put = (value) => {
      set(value);
      this.changed();
    };
    const [branch] = shape.branches;
    const value = get();
    const head = make("label", { for: id, class: "name" }, label);
    let body = [];
    let control;
    if (style === "words") control = wordsControl(shape, optional, value, put, attributes);
    else if (style === "number" && (value === null || value === ABSENT || typeof value !== "object"))
      control = numberControl(shape, optional, value, put, attributes);
    else if (style === "text" && typeof value === "string")
      control = textControl(branch.limits, value, put, attributes);
    else [control, body] = this.parts(shape, optional, value, set, path, attributes);
    return make(
      "div",
      { class: "row", id: `row:${name}` },
      make("div", { class: "line" }, head, control, beside),
      ...notes,
      make("p", { class: "fault", id: `fault:${name}` }),
      ...body,
    );
  }

  /** First the kind of the value, then the value. */
  parts(shape, optional, value, set, path, attributes) {
    const name = pathText(path);
    const kinds = shape.branches.map((branch, index) => [String(index), KIND_NAMES[branch.kind]]);
    const options = [
      ...(optional ? [["absent", "not sent"]] : []),
      ...kinds,
      ...(shape.nullable ? [["null", "null"]] : []),
    ];
    const index =
      value === ABSENT || value === null
        ? -1
        : shape.branches.findIndex((branch) => branch.kind === "any" || isKind(value, branch.kind));
    const chosen = value === ABSENT ? "absent" : value === null ? "null" : String(index);
    if (index < 0 && value !== ABSENT && value !== null) options.push(["-1", "something else"]);
    const change = (event) => {
      const picked = event.target.value;
      if (picked !== "-1")
        set(picked === "absent" ? ABSENT : picked === "null" ? null : startOf(shape.branches[Number(picked)]));
      this.redraw();
    };
    const select = choice({ ...attributes, change }, options, chosen);
    return [select, index < 0 ? [] : [this.inside(shape.branches[index], value, set, path, name)]];
  }

  inside(branch, value, set, path, name) {
    const put = (inner) => {
      set(inner);
      this.changed();
    };
    const attributes = { id: `in:${name}`, "aria-label": name, "aria-describedby": `hint:${name} fault:${name}` };
    if (branch.kind === "string") return textControl(branch.limits, value, put, attributes);
    if (branch.kind === "list") return this.list(branch, value, path, name);
    if (branch.model)
      return make("fieldset", {}, make("legend", {}, name), ...this.members(branch.model, value, path, false));
    return jsonControl(value, put, attributes);
  }

  list(branch, value, path, name) {
    const rows = value.map((item, index) => {
      const at = [...path, index];
      const remove = () => {
        value.splice(index, 1);
        this.redraw();
        document.getElementById(`more:${name}`)?.focus();
      };
      const button = make(
        "button",
        { type: "button", class: "small", "aria-label": `Remove ${pathText(at)}`, click: remove },
        "Remove",
      );
      const { items } = branch;
      const only = items.branches.length === 1 && items.branches[0].model && item instanceof Map;
      if (only) {
        const inner = make(
          "fieldset",
          {},
          make("legend", {}, pathText(at)),
          ...this.members(items.branches[0].model, item, at, false),
          button,
        );
        return make("div", { class: "item", id: `row:${pathText(at)}` }, inner, make("p", { class: "fault" }));
      }
      const put = (inner) => {
        value[index] = inner;
      };
      return this.rowAround(at, pathText(at), items, false, () => value[index], put, [], button);
    });
    const add = () => {
      value.push(startOf(branch.items.branches[0]));
      this.redraw();
    };
    return make(
      "div",
      { class: "list" },
      ...rows,
      make("button", { type: "button", class: "small", id: `more:${name}`, click: add }, `Add to ${name}`),
    );
  }

  redraw() {
    this.draw();
    this.changed();
  }
}
