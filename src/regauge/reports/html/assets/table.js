// The table of a prompt's cases; the document has only the visible rows.

const ROW = 38;
const AHEAD = 12;
const PRINTED = 5000;

class CaseTable {
  constructor(prompt, mount) {
    this.prompt = prompt;
    this.filter = {};
    this.rows = prompt.cases;
    this.columns = [
      ["status", "Status", "11rem"], ["case", "Case", ""], ["tier", "Tier", "6.5rem"],
      prompt.has.base && ["base", "Base", "6rem", "num"],
      ...(prompt.models.length ? prompt.models.map(([side, name]) => [side, name, "9rem", "num"])
        : [["candidate", prompt.has.base ? "Candidate" : "Trials", "7.5rem", "num"]]),
      ["judges", "Failed by", "14rem"], ["latency", "Latency", "6.5rem", "num"], ["cost", "Cost", "6rem", "num"],
    ].filter(Boolean);
    this.build(mount);
  }

  build(mount) {
    this.search = el("input", { type: "search", placeholder: "Words in names, texts, reasons", autocomplete: "off", spellcheck: "false",
      oninput: () => this.change("q", this.search.value) });
    this.search.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown") { event.preventDefault(); this.focusRow(0); }
    });
    const { has } = this.prompt;
    this.selects = {};
    const choice = (name, label, values) => {
      if (values.length < 2 && name !== "status") return null;
      const select = el("select", { onchange: () => this.change(name, select.value) },
        el("option", { value: "" }, "All"), values.map((value) => el("option", { value }, value)));
      this.selects[name] = select;
      return el("label", {}, label, select);
    };
    this.count = el("p", { class: "count" });
    const filters = el("div", { class: "filters", role: "search", "aria-label": `Cases of ${this.prompt.name}` },
      el("label", {}, "Search", this.search),
      choice("status", "Status", has.statuses), choice("judge", "Failed by", has.judges),
      choice("tier", "Tier", has.tiers), choice("split", "Split", has.splits), choice("tag", "Tag", has.tags), this.count);
    this.heads = new Map(this.columns.map(([name, label, width, kind]) => [name,
      el("th", { scope: "col", class: kind }, el("button", { type: "button", onclick: () => this.sortBy(name) }, label))]));
    const sizes = this.columns.map(([, , width]) => { const col = el("col"); if (width) col.style.width = width; return col; });
    this.above = el("td", { colspan: this.columns.length });
    this.below = el("td", { colspan: this.columns.length });
    this.body = el("tbody");
    this.table = el("table", { class: "grid", "aria-label": `Cases of ${this.prompt.name}` },
      el("colgroup", {}, sizes), el("thead", {}, el("tr", {}, [...this.heads.values()])), this.body);
    this.box = el("div", { class: "grid-box", role: "region", "aria-label": `Table of cases of ${this.prompt.name}`, tabindex: "0" }, this.table);
    this.box.addEventListener("scroll", () => this.paint(), { passive: true });
    this.empty = el("p", { class: "none", hidden: true }, "No cases match. ",
      el("button", { type: "button", onclick: () => navigate(promptHash(this.prompt.name, {})) }, "Show all"));
    mount.replaceChildren(el("h2", {}, "Cases"), filters, this.box, this.empty);
  }

  change(name, value) {
    const filter = { ...this.filter, [name]: value };
    if (!value) delete filter[name];
    history.replaceState(null, "", promptHash(this.prompt.name, filter));
    this.apply(filter);
  }

  sortBy(name) {
    const [column, down] = sorting(this.filter);
    const first = ["latency", "cost"].includes(name); // the largest first
    this.change("sort", column === name ? (down ? name : `-${name}`) : first ? `-${name}` : name);
  }

  apply(filter) {
    this.filter = filter;
    if (this.search.value !== (filter.q || "")) this.search.value = filter.q || "";
    for (const [name, select] of Object.entries(this.selects)) select.value = filter[name] || "";
    const [column, down] = sorting(filter);
    for (const [name, head] of this.heads) {
      if (name === column) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
    this.rows = select(this.prompt, filter);
    const total = this.prompt.cases.length.toLocaleString("en");
    const selected = this.rows.length.toLocaleString("en");
    this.count.textContent = selected === total ? `${total} cases` : `${selected} of ${total} cases`;
    announce(this.count.textContent);
    this.table.setAttribute("aria-rowcount", String(this.rows.length + 1));
    this.box.hidden = !this.rows.length;
    this.empty.hidden = this.rows.length > 0;
    this.box.scrollTop = 0;
    this.painted = null;
    this.paint();
  }

  paint(whole) {
    const height = innerHeight; // a box that was nearly empty has yet to grow
    const from = whole ? 0 : Math.max(0, Math.floor(this.box.scrollTop / ROW) - AHEAD);
    const end = Math.min(this.rows.length, whole ? PRINTED : Math.ceil((this.box.scrollTop + height) / ROW) + AHEAD);
    if (this.painted && this.painted[0] === from && this.painted[1] === end) return;
    this.painted = [from, end];
    this.above.style.height = `${from * ROW}px`;
    this.below.style.height = `${(this.rows.length - end) * ROW}px`;
    const focused = this.body.contains(document.activeElement) ? document.activeElement.dataset.id : null;
    const nodes = [];
    if (from) nodes.push(el("tr", { class: "space", "aria-hidden": "true" }, this.above));
    for (let place = from; place < end; place += 1) nodes.push(this.row(place));
    if (end < this.rows.length) nodes.push(el("tr", { class: "space", "aria-hidden": "true" }, this.below));
    this.body.replaceChildren(...nodes);
    if (focused !== null) this.link(focused)?.focus({ preventScroll: true });
  }

  link(id) {
    return [...this.body.querySelectorAll("a")].find((a) => a.dataset.id === id);
  }

  row(place) {
    const testCase = this.rows[place];
    const href = caseAddress(this.prompt, testCase);
    const cells = this.columns.map(([name, , , kind]) => this.cell(name, testCase, href, kind, place));
    const row = el("tr", { class: "row", "aria-rowindex": String(place + 2) }, cells);
    row.addEventListener("click", (event) => {
      if (event.target.closest("a") || String(getSelection())) return;
      navigate(href);
    });
    return row;
  }

  cell(name, testCase, href, kind, place) {
    const count = (counts) => (counts ? `${counts[0]} of ${counts[1]}` : "–");
    if (this.prompt.models.some(([side]) => side === name)) return el("td", { class: kind }, this.grade(testCase.counts[name]));
    switch (name) {
      case "status": return el("td", {}, badge(testCase.status));
      case "case": {
        const link = el("a", { href, title: testCase.id, onkeydown: (event) => this.keys(event, place) }, testCase.id);
        link.dataset.id = testCase.id;
        return el("th", { scope: "row" }, link);
      }
      case "tier": return el("td", {}, testCase.tier);
      case "base": return el("td", { class: kind, title: !testCase.counts.base && testCase.before ? "before this run" : null }, count(testCase.counts.base || testCase.before));
      case "candidate": return el("td", { class: kind }, count(testCase.counts.candidate));
      case "judges": return el("td", { title: testCase.failed.join(", ") }, testCase.failed.join(", ") || "–");
      case "latency": return el("td", { class: kind }, duration(testCase.latency));
      case "cost": return el("td", { class: kind }, money(testCase.cost));
      default: throw new Error(`no column ${name}`);
    }
  }

  /** The result of a model on a case: a badge, or a count of mixed trials. */
  grade(count) {
    if (!count) return "–";
    if (!count[1]) return badge("unmeasured");
    if (count[0] === count[1] || !count[0]) return badge(count[0] ? "passed" : "failed");
    return `${count[0]} of ${count[1]}`;
  }

  keys(event, place) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    if (place + step < 0) this.search.focus();
    else this.focusRow(place + step);
  }

  focusRow(place) {
    if (place >= this.rows.length) return;
    const top = place * ROW;
    const height = this.box.clientHeight - ROW * 2;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    else if (top > this.box.scrollTop + height - ROW) this.box.scrollTop = top - height + ROW;
    this.paint();
    this.link(this.rows[place].id)?.focus({ preventScroll: true });
  }
}
