// Renders the Markdown that tasks return: paragraphs, lists, tables and bold words. A backslash before a character of markup
// is left out. Everything else stays text.

import { h, table } from "./dom.js";
import { withTimes } from "./formats.js";

const ESCAPED = /\\([\\`*_[\]<>|])/g;
const ROW = /^\|(.*)\|$/;
const RULE = /^\|(?=.*-)[\s|:-]+\|$/;

function inline(text) {
  return text.split(/\*\*(.+?)\*\*/).map((part) => withTimes(part.replaceAll(ESCAPED, "$1")))
    .map((words, place) => (place % 2 ? h("strong", {}, words) : words));
}

const cells = (line) => ROW.exec(line)[1].split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));

function rows(lines, label) {
  const [head, ...body] = lines.filter((line) => !RULE.test(line)).map(cells);
  return table(label, head.map((title, place) => ({ title, words: true, cell: (row) => inline(row[place] ?? "") })), body);
}

/** The elements of the text. `label` names its tables for screen readers. */
export function markdown(text, label) {
  const found = [];
  let block = [];
  const end = () => {
    if (!block.length) return;
    if (block.every((line) => ROW.test(line))) found.push(rows(block, label));
    else if (block.every((line) => line.startsWith("- "))) found.push(h("ul", {}, block.map((line) => h("li", {}, inline(line.slice(2))))));
    else found.push(...block.map((line) => h("p", {}, inline(line))));
    block = [];
  };
  for (const line of text.split("\n").map((one) => one.trim())) {
    if (line) block.push(line);
    else end();
  }
  end();
  return found;
}
