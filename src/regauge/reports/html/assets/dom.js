// Elements and text. Text becomes a text node only: no string is parsed as markup.

const HARMFUL =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]/gu;
const CLIP = 100000;

/** Text without characters that reorder or hide other text, and without lone surrogates. */
function visible(text) {
  return String(text)
    .replaceAll("\r\n", "\n")
    .replace(HARMFUL, (character) => {
      const code = character.codePointAt(0);
      return code < 256
        ? `\\x${code.toString(16).padStart(2, "0")}`
        : `\\u${code.toString(16).padStart(4, "0")}`;
    });
}

function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : visible(value));
  }
  for (const child of children.flat()) {
    if (child === undefined || child === null || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(visible(child)));
  }
  return node;
}

const TONES = {
  passed: "good", fixed: "good", pass: "good",
  broken: "bad", failed: "bad", removed: "bad", fail: "bad",
  unmeasured: "warn", undecided: "warn", drifted: "warn", flaky: "warn", "edit-sensitive": "warn",
  "failed (tracked)": "warn",
  "failed (not blocking)": "warn",
};
const MARKS = { good: "✓", bad: "✕", warn: "!" };

function badge(word) {
  const tone = TONES[word] || "";
  const mark = MARKS[tone];
  return el("span", { class: `badge ${tone}` },
    mark && el("span", { "aria-hidden": "true" }, `${mark} `), word);
}

function table(label, heads, rows, attributes) {
  const head = heads.map(([words, kind]) => el("th", { scope: "col", class: kind }, words));
  return el("div", { class: "scroll", role: "region", "aria-label": label, tabindex: "0" },
    el("table", { class: `facts ${(attributes && attributes.class) || ""}` },
      el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows)));
}

function pairs(entries) {
  const entriesWithValue = entries.filter(([, value]) => value !== undefined && value !== null && value !== "");
  return el("dl", { class: "pairs" },
    entriesWithValue.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

/** A long text is cut, with a button for the rest. */
function textBlock(pieces, label) {
  const total = pieces.reduce((sum, [, text]) => sum + text.length, 0);
  const lines = pieces.reduce((sum, [, text]) => sum + text.split("\n").length - 1, 1);
  // A scrolling block takes the focus, so it needs a name.
  const scrolls = total > 1200 || lines > 20;
  const block = el("pre", { class: scrolls ? "text long" : "text", dir: "auto", ...(scrolls && { tabindex: "0", role: "region", "aria-label": label }) });
  const fill = (limit) => {
    const nodes = [];
    let left = limit;
    for (const [kind, text] of pieces) {
      if (left <= 0) break;
      const part = text.length > left ? text.slice(0, left) : text;
      left -= part.length;
      nodes.push(kind === "same" ? document.createTextNode(visible(part)) : el(kind, {}, part));
    }
    block.replaceChildren(...nodes);
  };
  fill(CLIP);
  if (total <= CLIP) return [block];
  const rest = el("p", { class: "more" }, el("button", {
    type: "button",
    onclick: () => { fill(Infinity); rest.remove(); block.focus(); },
  }, `Show all ${total.toLocaleString("en")} characters`));
  return [block, rest];
}

const asJson = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));

function money(usd) {
  if (usd === undefined || usd === null) return "?";
  if (usd === 0) return "$0";
  return usd >= 1 ? `$${usd.toFixed(2)}` : `$${usd.toFixed(4)}`;
}

function duration(seconds) {
  if (seconds === undefined || seconds === null) return "–";
  return seconds >= 1 ? `${seconds.toFixed(1)} s` : `${Math.round(seconds * 1000)} ms`;
}

const encoded = (name) => encodeURIComponent(String(name).replace(/[\ud800-\udfff]/gu, "\ufffd"));
