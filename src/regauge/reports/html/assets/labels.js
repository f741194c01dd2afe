// One output at a time to label; the page saves all lines as the label file.

const SHEET = JSON.parse(document.getElementById("data").textContent);
const SCORES = [0, 0.25, 0.5, 0.75, 1];
const CHOICES = SHEET.key === "score" ? SCORES.map((score) => [score, String(score)]) : [["pass", "Pass"], ["fail", "Fail"]];
const MEMORY = `regauge-labels-${SHEET.judge}`;
const waits = (line) => ["label", "score"].some((key) => key in line && (line[key] === "" || line[key] === null));
const read = SHEET.lines.map((line) => JSON.parse(line));
const items = read.map((line, place) => ({ line, place })).filter(({ line }) => waits(line));
const author = document.getElementById("author");
const box = document.getElementById("output");
// By id: a label that was set on this page, and its reason.
const marks = new Map();
let position = 0;

function remember() {
  try { localStorage.setItem(MEMORY, JSON.stringify({ author: author.value, marks: [...marks] })); } catch { /* no storage: only what is saved is kept */ }
}

function recall() {
  try {
    const memory = JSON.parse(localStorage.getItem(MEMORY)) || {};
    author.value = memory.author || "";
    for (const [id, mark] of memory.marks || []) marks.set(id, mark);
  } catch { /* no storage, or not ours */ }
}

const markOf = ({ line }) => marks.get(line.id) || { label: null, reason: "" };
const labelled = (item) => markOf(item).label !== null;

function change(item, part) {
  marks.set(item.line.id, { ...markOf(item), ...part });
  remember();
}

function label(value) {
  const item = items[position];
  change(item, { label: value });
  document.getElementById("live").textContent = value === null ? "label removed" : `labelled ${value}`;
  if (value === null) show();
  else if (!next()) show();
}

/** Go to the next output without a label; false if all have one. */
function next() {
  const place = [...items.keys()].map((n) => (position + 1 + n) % items.length).find((n) => !labelled(items[n]));
  if (place === undefined) return false;
  go(place);
  return true;
}

function go(place) {
  if (place < 0 || place >= items.length) return;
  position = place;
  show();
  scrollTo(0, 0);
}

function pane(name, text) {
  const body = text === "" ? [el("p", { class: "text quiet" }, "(empty)")] : textBlock([["same", text]], name);
  return el("article", { class: "pane", "aria-label": name }, el("header", {}, el("h3", {}, name)), body);
}

function show() {
  const item = items[position];
  const { line } = item;
  const golden = SHEET.cases[line.case] || { inputs: line.inputs || {}, expected: line.expected };
  const mark = markOf(item);
  const reason = el("textarea", { id: "reason", oninput: () => change(item, { reason: reason.value }) });
  reason.value = mark.reason;
  const done = items.filter(labelled).length;
  box.replaceChildren(
    el("div", { class: "choices", role: "group", "aria-label": "Label" },
      CHOICES.map(([value, words]) => el("button", { type: "button", "aria-pressed": String(mark.label === value), onclick: () => label(value) }, words)),
      el("button", { type: "button", onclick: () => go(position - 1) }, "Previous"),
      el("button", { type: "button", onclick: () => go(position + 1) }, "Next"),
      el("span", { class: "state" }, `Output ${position + 1} of ${items.length}, ${done} labelled`)),
    ...Object.entries(golden.inputs || {}).map(([name, value]) => pane(`Input: ${name}`, asJson(value))),
    golden.expected !== null && golden.expected !== undefined ? pane("Expected", asJson(golden.expected)) : "",
    pane("Output", line.output),
    el("label", { class: "reason" }, "Reason", reason));
}

/** A line as Python writes it. */
function formatLine(line) {
  const format = (value) => value === null || typeof value !== "object" ? JSON.stringify(value)
    : Array.isArray(value) ? `[${value.map(format).join(", ")}]` : formatLine(value);
  return `{${Object.entries(line).map(([name, value]) => `${JSON.stringify(name)}: ${format(value)}`).join(", ")}}`;
}

/** All lines: those that were labelled here with label, author and reason, others as they were. */
function fileText() {
  const changed = new Map(items.filter(labelled).map((item) => {
    const { label: value, reason } = markOf(item);
    return [item.place, formatLine({ ...item.line, [SHEET.key]: value, author: author.value.trim(), reason: reason.trim() })];
  }));
  return SHEET.lines.map((line, place) => `${changed.get(place) ?? line}\n`).join("");
}

function save() {
  const url = URL.createObjectURL(new Blob([fileText()], { type: "application/jsonl" }));
  el("a", { href: url, download: SHEET.file }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
  const words = `Saved ${items.filter(labelled).length} of ${items.length} labels as ${SHEET.file}`;
  document.getElementById("live").textContent = words;
}

const keys = {
  j: () => go(position + 1),
  k: () => go(position - 1),
  n: next,
  u: () => label(null),
  w: () => document.getElementById("reason").focus(),
  s: save,
  Escape: () => document.activeElement.blur(),
};
CHOICES.forEach(([value], place) => { keys[String(place + 1)] = () => label(value); });
if (SHEET.key === "label") Object.assign(keys, { p: () => label("pass"), f: () => label("fail") });
if (items.length) {
  recall();
  author.addEventListener("input", remember);
  const button = document.getElementById("save");
  button.hidden = false;
  button.addEventListener("click", save);
  show();
  if (labelled(items[0])) next();
}
listen(items.length ? keys : {});
themed();
