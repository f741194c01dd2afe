// The page of one case: outputs, inputs, verdicts of judges, and all trials.

const SIDES = { base: `Base (${REPORT.base})`, candidate: REPORT.base ? "Candidate" : "Output" };
/** The sides of a prompt's trials with their names: several models, or base and candidate. */
const sidesOf = (prompt) => prompt.models.length
  ? [...(prompt.has.base ? [["base", SIDES.base]] : []), ...prompt.models] : Object.entries(SIDES);
const JSON_LIKE = /^\s*[[{]/;
const reading = { formatted: true, marked: true };

function caseView(prompt, testCase, place, rows, chosen) {
  return [
    crumbs(prompt, testCase, place, rows),
    el("h1", { id: "case-title", tabindex: "-1" }, testCase.id),
    el("div", { class: "badges" }, badge(testCase.status), badge(testCase.tier), testCase.split && badge(testCase.split),
      testCase.state && testCase.state !== "changed" && badge(testCase.state),
      testCase.sensitive && badge("edit-sensitive"), testCase.tags.map((tag) => badge(tag))),
    testCase.message && el("p", { class: "message" }, testCase.message),
    testCase.accepted && el("p", { class: "note" }, `Accepted by the changelog: ${testCase.accepted}`),
    el("h2", {}, "Outputs"), outputsView(prompt, testCase, chosen),
    goldenView(testCase), checksView(testCase), trialsView(prompt, testCase), originView(prompt, testCase),
  ].flat().filter(Boolean);
}

function crumbs(prompt, testCase, place, rows) {
  const back = `${HOME}${promptHash(prompt.name, tables.get(prompt.name).filter)}`;
  const step = (to, words, rel) => to && el("a", { href: caseHash(prompt.name, to.id), rel }, words);
  return el("div", { class: "crumbs" },
    el("a", { href: `${HOME}#/` }, "Overview"), el("span", { "aria-hidden": "true" }, "/"),
    el("a", { href: back, id: "back" }, prompt.name), el("span", { "aria-hidden": "true" }, "/"), "Case",
    el("span", { class: "steps" },
      place >= 0 && el("span", {}, `${(place + 1).toLocaleString("en")} of ${rows.length.toLocaleString("en")}`),
      step(rows[place - 1], "Previous", "prev"), step(place >= 0 ? rows[place + 1] : null, "Next", "next")));
}

/** The trials of a side; without any in this run, the outputs that the gate shows. */
function trialsOf(testCase, side) {
  const trials = testCase.trials.filter((trial) => trial.side === side);
  if (trials.length) return trials;
  return (testCase.evidence || []).filter((example) => example.side === side).map((example) => ({
    side, n: example.n, output: example.output, outcome: example.judge ? "failed" : "passed", earlier: true,
    verdicts: example.judge ? [{ judge: example.judge, outcome: "fail", score: 0, reason: example.reason }] : [],
  }));
}

/** The first trial with an outcome, or the first of all. */
function firstTrial(trials, outcome) {
  return trials.find((trial) => trial.outcome === outcome) || trials[0];
}

// By default a failing candidate is next to a passing base.
function outputsView(prompt, testCase, chosen) {
  const names = new Map(sidesOf(prompt));
  const trials = Object.fromEntries([...names.keys()].map((side) => [side, trialsOf(testCase, side)]));
  const box = el("div", {});
  const pick = {};
  for (const side of names.keys()) {
    const isGood = testCase.status === "fixed" || testCase.status === "passed";
    const outcome = testCase.status === "passed" || isGood === (side !== "base") ? "passed" : "failed";
    pick[side] = trials[side].find((trial) => String(trial.n) === chosen[side]) || firstTrial(trials[side], outcome);
  }
  const sides = [...names.keys()].filter((side) => pick[side]);
  const compares = sides.length > 1;
  const render = () => {
    if (!sides.length) { box.replaceChildren(el("p", { class: "note" }, "No trial of this case is in the run.")); return; }
    const texts = Object.fromEntries(sides.map((side) => [side, readable(pick[side].output ?? "")]));
    let pieces = Object.fromEntries(sides.map((side) => [side, [["same", texts[side]]]]));
    let note = null;
    if (compares && reading.marked) {
      const [first, ...others] = sides;
      for (const side of others) {
        const diff = wordDiff(texts[first], texts[side]);
        if (!diff) { note = "These outputs are too long to mark differences."; break; }
        pieces = { ...pieces, [side]: diff[1], ...(others.length === 1 ? { [first]: diff[0] } : {}) };
      }
    }
    if (compares && new Set(sides.map((side) => texts[side])).size === 1) {
      note = sides.length === 2 ? "Both outputs are equal." : "All outputs are equal.";
    }
    box.replaceChildren(...[
      el("div", { class: "options" },
        compares && option("Mark differences", "marked", render),
        sides.some((side) => JSON_LIKE.test(pick[side].output ?? "")) && option("Format JSON", "formatted", render)),
      note && el("p", { class: "note" }, note),
      el("div", { class: compares ? "sides" : "sides single" }, sides.map((side) => pane(names.get(side), pick[side], trials[side], pieces[side], (trial) => {
        pick[side] = trial;
        const query = { ...routeOf(location.hash).query, [side]: String(trial.n) };
        history.replaceState(null, "", caseHash(prompt.name, testCase.id, query));
        render();
      }))),
      verdictsView(prompt, sides, pick),
    ].filter(Boolean));
  };
  render();
  return box;
}

function option(words, name, render) {
  const box = el("input", { type: "checkbox", onchange: () => { reading[name] = box.checked; render(); } });
  box.checked = reading[name];
  return el("label", {}, box, words);
}

function readable(output) {
  if (!reading.formatted || output.length > DIFF_CHARS || !JSON_LIKE.test(output)) return output;
  try { return JSON.stringify(JSON.parse(output), null, 2); } catch { return output; }
}

function pane(name, trial, trials, pieces, onpick) {
  const choose = trials.length > 1 && el("select", { "aria-label": `Trial of ${name}`, onchange: () => onpick(trials[choose.selectedIndex]) },
    trials.map((option) => el("option", {}, `trial ${option.n}: ${option.outcome}`)));
  if (choose) choose.selectedIndex = trials.indexOf(trial);
  const missing = trial.output === undefined;
  return el("article", { class: "pane", "aria-label": name },
    el("header", {}, el("h3", {}, name), badge(trial.outcome),
      choose || el("span", { class: "quiet" }, `trial ${trial.n}${trial.earlier ? ", from an earlier run" : ""}`)),
    trial.refusal && el("p", { class: "text" }, `The model refused: ${trial.refusal}`),
    trial.cause && el("p", { class: "text" }, trial.cause.message),
    trial.cause && trial.cause.raw && textBlock([["same", trial.cause.raw]], "Response of the judge's model"),
    missing ? !trial.cause && el("p", { class: "text" }, "(no output)")
      : pieces.every(([, text]) => !text) ? el("p", { class: "text" }, "(empty output)") : textBlock(pieces, name === "Output" ? name : `Output of ${name}`));
}

/** The short name of a side. */
const nameOfSide = (prompt, side) => new Map(prompt.models).get(side) || (side === "base" ? "Base" : "Candidate");

function verdictsView(prompt, sides, pick) {
  const judges = [...new Set(sides.flatMap((side) => pick[side].verdicts.map((verdict) => verdict.judge)))];
  if (!judges.length) return null;
  const rows = judges.flatMap((judge) => sides.map((side, place) => {
    const verdict = pick[side].verdicts.find((candidate) => candidate.judge === judge);
    return el("tr", {},
      place === 0 && el("th", { scope: "rowgroup", rowspan: sides.length }, judge),
      sides.length > 1 && el("td", {}, nameOfSide(prompt, side)),
      el("td", {}, verdict ? badge(verdict.outcome) : "–"),
      el("td", { class: "num" }, verdict ? String(Math.round(verdict.score * 1000) / 1000) : "–"),
      el("td", { class: "prose" }, verdict ? reasonOf(verdict) : ""));
  }));
  const heads = [["Judge"], sides.length > 1 && ["Side"], ["Verdict"], ["Score", "num"], ["Reason"]].filter(Boolean);
  return el("div", {}, el("h2", {}, "Judges"), table("Verdicts of judges", heads, rows, { class: "verdicts" }));
}

function reasonOf(verdict) {
  const parts = [el("div", {}, verdict.reason)];
  const line = (words, value) => el("div", { class: "note" }, `${words}: `, el("code", {}, asJson(value)));
  if (verdict.outcome !== "pass") {
    if ((verdict.expected ?? null) !== null) parts.push(line("Expected", verdict.expected));
    if ((verdict.actual ?? null) !== null) parts.push(line("Output", verdict.actual));
  }
  if (verdict.blocking === false) parts.push(el("div", { class: "note" }, `Advisory${verdict.status_reason ? `: ${verdict.status_reason}` : ""}.`));
  else if (verdict.status_reason) parts.push(el("div", { class: "note" }, verdict.status_reason));
  const { usage } = verdict;
  if (usage?.calls) parts.push(el("div", { class: "note" }, `${usage.calls} model ${usage.calls === 1 ? "call" : "calls"}, ${money(usage.cost_usd)}, ${duration(usage.latency_s)}`));
  return parts;
}

function goldenView(testCase) {
  const { golden } = testCase;
  const inputs = Object.entries(golden.inputs || {});
  const block = (words, value) => el("article", { class: "pane", "aria-label": words },
    el("header", {}, el("h3", {}, words)), textBlock([["same", asJson(value)]], words));
  return [
    el("h2", {}, "Inputs and expected output"),
    golden.problem && el("p", { class: "warning" }, golden.problem),
    (inputs.length || golden.expected !== undefined) && el("div", { class: golden.expected !== undefined ? "sides" : "sides single" },
      el("div", { class: "inputs" }, inputs.map(([name, value]) => block(`Input: ${name}`, value))),
      golden.expected !== undefined && el("div", { class: "inputs" }, block("Expected", golden.expected))),
  ].filter(Boolean);
}

function checksView(testCase) {
  if (!testCase.checks || !testCase.checks.length) return null;
  const count = (counts) => (counts.trials ? `${counts.passed} of ${counts.trials}` : "–");
  const number = (value) => (value === undefined || value === null ? "–" : value >= 100 ? Math.round(value).toLocaleString("en") : value.toPrecision(2));
  return [el("h2", {}, "Evidence of the gate"), table("Evidence of the gate",
    [["Check"], ["Status"], ["Baseline", "num"], ["Base now", "num"], ["Candidate", "num"], ["E-value", "num"], ["Broken from", "num"]],
    testCase.checks.map((check) => el("tr", {}, el("th", { scope: "row" }, check.check), el("td", {}, check.status),
      [check.before, check.today, check.candidate].map((counts) => el("td", { class: "num" }, count(counts))),
      el("td", { class: "num" }, number(check.e_value)), el("td", { class: "num" }, number(check.bound))))),
    el("p", { class: "note" }, "E-value: the likelihood of these counts if the candidate is worse, divided by that if it is not. A case is broken from the value in the last column.")];
}

function trialsView(prompt, testCase) {
  if (!testCase.trials.length) return null;
  const names = { recording: "recording", store: "local store", live: "live" };
  const several = REPORT.base || prompt.models.length;
  return [el("h2", {}, "All trials"), table("All trials",
    [several && ["Side"], ["Trial", "num"], ["Outcome"], ["Failed by"], ["Source"], ["Latency", "num"], ["Tokens", "num"], ["Cost", "num"], ["Model"], ["Finish reason"], ["Request"]].filter(Boolean),
    testCase.trials.map((trial) => el("tr", {},
      several && el("th", { scope: "row" }, nameOfSide(prompt, trial.side)),
      el("td", { class: "num" }, String(trial.n)), el("td", {}, badge(trial.outcome)),
      el("td", {}, trial.verdicts.filter((verdict) => verdict.outcome === "fail").map(nameOf).join(", ") || (trial.cause ? trial.cause.kind : "–")),
      el("td", {}, names[trial.source] || "–"), el("td", { class: "num" }, duration(trial.latency_s)),
      el("td", { class: "num" }, `${trial.input_tokens} + ${trial.output_tokens}`),
      el("td", { class: "num" }, trial.source ? money(trial.cost_usd) : "–"),
      el("td", {}, [trial.response_model, trial.fingerprint].filter(Boolean).join(", ") || "–"),
      el("td", {}, trial.finish_reason || "–"),
      el("td", {}, el("code", { title: trial.request_digest }, trial.request_digest.slice(0, 12))))))];
}

function originView(prompt, testCase) {
  const sideOf = (trial) => (REPORT.base && !prompt.models.length ? (trial.side === "base" ? "base " : "candidate ") : "");
  const model = (trial) => `${trial.model}${trial.model.startsWith("sim:") ? " (simulated)" : ""}`;
  const versions = [...new Set(testCase.trials.map((trial) =>
    `${sideOf(trial)}${trial.version || "unversioned"} (${trial.prompt_digest.slice(0, 12)}) with ${model(trial)}`))];
  const { golden } = testCase;
  return [el("h2", {}, "Origin"), pairs([
    ["Prompt", `${prompt.name}${versions.length ? `, ${versions.join("; ")}` : ""}`],
    ["Golden case", golden.location || (testCase.dataset && `${testCase.dataset}, ${testCase.id}`)],
    ["Source", golden.source], ["Licence", golden.licence], ["Note", golden.note], ["Item", testCase.node && el("code", {}, testCase.node)],
  ])];
}
