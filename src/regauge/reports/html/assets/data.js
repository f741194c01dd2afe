// The cases of the run: read once, then looked through.

const REPORT = JSON.parse(document.getElementById("data").textContent);
const HOME = REPORT.home || ""; // the address of the index, from one of its pages
const WEIGHTS = [
  "broken", "failed", "unmeasured", "undecided", "removed", "drifted", "fixed", "new", "flaky",
  "known failing", "failed (tracked)", "failed (not blocking)", "passed", "unchanged",
];
const SEARCHED_CHARS = 2000;

const rank = (word) => { const at = WEIGHTS.indexOf(word); return at < 0 ? WEIGHTS.length : at; };

/** A judge that informs only is not why a case failed. */
const nameOf = (said) => (said.gates === false ? `${said.judge} (advisory)` : said.judge);

function prepare(prompt) {
  prompt.byId = new Map();
  prompt.cases.forEach((one, place) => {
    one.place = place;
    prompt.byId.set(one.id, one);
  });
  prompt.has = {
    base: prompt.cases.some((one) => one.counts.base || one.before),
    tags: [...new Set(prompt.cases.flatMap((one) => one.tags))].sort(),
    judges: [...new Set(prompt.cases.flatMap((one) => one.failed))].sort(),
    tiers: [...new Set(prompt.cases.map((one) => one.tier))].sort(),
    splits: [...new Set(prompt.cases.map((one) => one.split))].filter(Boolean).sort(),
    verdicts: [...new Set(prompt.cases.map((one) => one.verdict))].sort((a, b) => rank(a) - rank(b)),
  };
}

/** What a search looks at: names, words of judges, and the beginnings of texts. */
function haystack(one) {
  if (one.hay === undefined) {
    const parts = [one.id, one.verdict, one.tier, one.split, one.message || one.words || "", one.sensitive ? "edit-sensitive" : "", ...one.tags];
    for (const trial of one.trials || []) {
      parts.push((trial.answer || "").slice(0, SEARCHED_CHARS), trial.cause ? trial.cause.message : "");
      for (const said of trial.verdicts) {
        if (said.outcome !== "pass") parts.push(said.judge, said.reason.slice(0, SEARCHED_CHARS));
      }
    }
    for (const value of Object.values(one.golden?.inputs || {})) parts.push(asJson(value).slice(0, SEARCHED_CHARS));
    one.hay = parts.join("\n").toLowerCase();
  }
  return one.hay;
}

const share = (count) => (count && count[1] ? count[0] / count[1] : -1);
const ORDERS = {
  verdict: (one) => rank(one.verdict),
  case: (one) => one.id.toLowerCase(),
  tier: (one) => ["critical", "required", "tracked"].indexOf(one.tier),
  base: (one) => share(one.counts.base || one.before),
  candidate: (one) => share(one.counts.candidate),
  judges: (one) => one.failed.join(", "),
  latency: (one) => one.latency ?? -1,
  cost: (one) => one.cost ?? -1,
};

/** The cases that a filter leaves, in its order. */
function select(prompt, filter) {
  const words = (filter.q || "").toLowerCase().split(/\s+/).filter(Boolean);
  const left = prompt.cases.filter((one) =>
    (!filter.verdict || one.verdict === filter.verdict) &&
    (!filter.tier || one.tier === filter.tier) &&
    (!filter.split || one.split === filter.split) &&
    (!filter.tag || one.tags.includes(filter.tag)) &&
    (!filter.judge || one.failed.includes(filter.judge)) &&
    words.every((word) => haystack(one).includes(word)));
  const [column, down] = sorting(filter);
  const order = ORDERS[column] || ((one) => share(one.counts[column]));
  const keyed = left.map((one) => [order(one), one]);
  keyed.sort(([a, x], [b, y]) => (a < b ? -1 : a > b ? 1 : 0) * (down ? -1 : 1) || x.place - y.place);
  return keyed.map(([, one]) => one);
}

function sorting(filter) {
  const given = filter.sort || "verdict";
  const down = given.startsWith("-");
  const column = down ? given.slice(1) : given;
  return Object.hasOwn(ORDERS, column) || /^model-\d+$/.test(column) ? [column, down] : ["verdict", false];
}
