// The cases of the run, with filters, search and order.

const REPORT = JSON.parse(document.getElementById("data").textContent);
const HOME = REPORT.home || ""; // the address of the index, from one of its pages
const WEIGHTS = [
  "broken", "failed", "unmeasured", "undecided", "removed", "drifted", "fixed", "new", "flaky",
  "known failing", "failed (tracked)", "failed (not blocking)", "passed", "unchanged",
];
const SEARCHED_CHARS = 2000;

const rank = (status) => { const place = WEIGHTS.indexOf(status); return place < 0 ? WEIGHTS.length : place; };

const nameOf = (verdict) => (verdict.blocking === false ? `${verdict.judge} (advisory)` : verdict.judge);

function prepare(prompt) {
  prompt.byId = new Map();
  prompt.cases.forEach((testCase, place) => {
    testCase.place = place;
    prompt.byId.set(testCase.id, testCase);
  });
  prompt.has = {
    base: prompt.cases.some((testCase) => testCase.counts.base || testCase.before),
    tags: [...new Set(prompt.cases.flatMap((testCase) => testCase.tags))].sort(),
    judges: [...new Set(prompt.cases.flatMap((testCase) => testCase.failed))].sort(),
    tiers: [...new Set(prompt.cases.map((testCase) => testCase.tier))].sort(),
    splits: [...new Set(prompt.cases.map((testCase) => testCase.split))].filter(Boolean).sort(),
    statuses: [...new Set(prompt.cases.map((testCase) => testCase.status))].sort((a, b) => rank(a) - rank(b)),
  };
}

/** The searched text of a case: names, reasons of judges, and the beginnings of texts. */
function searchText(testCase) {
  if (testCase.searched === undefined) {
    const parts = [testCase.id, testCase.status, testCase.tier, testCase.split, testCase.message || testCase.words || "", testCase.sensitive ? "edit-sensitive" : "", ...testCase.tags];
    for (const trial of testCase.trials || []) {
      parts.push((trial.output || "").slice(0, SEARCHED_CHARS), trial.cause ? trial.cause.message : "");
      for (const verdict of trial.verdicts) {
        if (verdict.outcome !== "pass") parts.push(verdict.judge, verdict.reason.slice(0, SEARCHED_CHARS));
      }
    }
    for (const value of Object.values(testCase.golden?.inputs || {})) parts.push(asJson(value).slice(0, SEARCHED_CHARS));
    testCase.searched = parts.join("\n").toLowerCase();
  }
  return testCase.searched;
}

const share = (count) => (count && count[1] ? count[0] / count[1] : -1);
const ORDERS = {
  status: (testCase) => rank(testCase.status),
  case: (testCase) => testCase.id.toLowerCase(),
  tier: (testCase) => ["critical", "required", "tracked"].indexOf(testCase.tier),
  base: (testCase) => share(testCase.counts.base || testCase.before),
  candidate: (testCase) => share(testCase.counts.candidate),
  judges: (testCase) => testCase.failed.join(", "),
  latency: (testCase) => testCase.latency ?? -1,
  cost: (testCase) => testCase.cost ?? -1,
};

/** The cases of a filter, in its order. */
function select(prompt, filter) {
  const words = (filter.q || "").toLowerCase().split(/\s+/).filter(Boolean);
  const selected = prompt.cases.filter((testCase) =>
    (!filter.status || testCase.status === filter.status) &&
    (!filter.tier || testCase.tier === filter.tier) &&
    (!filter.split || testCase.split === filter.split) &&
    (!filter.tag || testCase.tags.includes(filter.tag)) &&
    (!filter.judge || testCase.failed.includes(filter.judge)) &&
    words.every((word) => searchText(testCase).includes(word)));
  const [column, down] = sorting(filter);
  const order = ORDERS[column] || ((testCase) => share(testCase.counts[column]));
  const keyed = selected.map((testCase) => [order(testCase), testCase]);
  keyed.sort(([a, x], [b, y]) => (a < b ? -1 : a > b ? 1 : 0) * (down ? -1 : 1) || x.place - y.place);
  return keyed.map(([, testCase]) => testCase);
}

function sorting(filter) {
  const order = filter.sort || "status";
  const down = order.startsWith("-");
  const column = down ? order.slice(1) : order;
  return Object.hasOwn(ORDERS, column) || /^model-\d+$/.test(column) ? [column, down] : ["status", false];
}
