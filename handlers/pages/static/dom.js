// Makes elements: text only ever becomes text.

/** An element with attributes (functions become listeners, false and null are left out) and children. */
export function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value !== false && value !== null && value !== undefined)
      made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

/** A select with options as [value, text]. */
export function choice(attributes, options, chosen) {
  const made = make(
    "select",
    attributes,
    options.map(([value, text]) => make("option", { value }, text)),
  );
  made.value = chosen;
  return made;
}
