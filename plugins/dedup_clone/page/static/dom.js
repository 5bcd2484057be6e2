// Creates elements. Strings become text nodes: data is never parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** An HTML element with attributes (`onclick` and the like are listeners) and children. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element with attributes and children. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** A table that scrolls. Columns are `{title, cell(row)}` and at most one of: `number` aligns a cell right, `short` keeps it on
 * one line, `words` lets it wrap anywhere. `label` names the table for screen readers. */
export function table(label, columns, rows) {
  const kind = (column) => (column.number ? "number" : column.words ? "words" : column.short ? "short" : null);
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label },
    h("table", {},
      h("thead", {}, h("tr", {}, columns.map((c) => h("th", { scope: "col", class: c.number ? "number" : null }, c.title)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, columns.map((c) => h("td", { class: kind(c) }, c.cell(row)))))),
    ));
}

export const pill = (word, kind = word) => h("span", { class: `pill ${kind.replaceAll(" ", "-")}` }, word);
