// The page of one case: what it was given, what was answered, what each judge said, every trial.

const ARMS = { base: `Base (${REPORT.base})`, candidate: REPORT.base ? "Candidate" : "Answer" };
/** The sides of a prompt's trials with their names: several models, or base and candidate. */
const armsOf = (prompt) => prompt.models.length
  ? [...(prompt.has.base ? [["base", ARMS.base]] : []), ...prompt.models] : Object.entries(ARMS);
const JSON_LIKE = /^\s*[[{]/;
const reading = { laid: true, marked: true };

function caseView(prompt, one, place, rows, chosen) {
  return [
    crumbs(prompt, one, place, rows),
    el("h1", { id: "case-title", tabindex: "-1" }, one.id),
    el("div", { class: "badges" }, badge(one.verdict), badge(one.tier), one.split && badge(one.split),
      one.state && one.state !== "changed" && badge(one.state),
      one.sensitive && badge("edit-sensitive"), one.tags.map((tag) => badge(tag))),
    one.message && el("p", { class: "message" }, one.message),
    one.accepted && el("p", { class: "note" }, `Accepted by the changelog: ${one.accepted}`),
    el("h2", {}, "Answers"), answersView(prompt, one, chosen),
    goldenView(one), checksView(one), trialsView(prompt, one), originView(prompt, one),
  ].flat().filter(Boolean);
}

function crumbs(prompt, one, place, rows) {
  const back = `${HOME}${promptHash(prompt.name, tables.get(prompt.name).filter)}`;
  const step = (to, words, rel) => to && el("a", { href: caseHash(prompt.name, to.id), rel }, words);
  return el("div", { class: "crumbs" },
    el("a", { href: `${HOME}#/` }, "Overview"), el("span", { "aria-hidden": "true" }, "/"),
    el("a", { href: back, id: "back" }, prompt.name), el("span", { "aria-hidden": "true" }, "/"), "Case",
    el("span", { class: "steps" },
      place >= 0 && el("span", {}, `${(place + 1).toLocaleString("en")} of ${rows.length.toLocaleString("en")}`),
      step(rows[place - 1], "Previous", "prev"), step(place >= 0 ? rows[place + 1] : null, "Next", "next")));
}

/** The draws of a side that have an answer; those the gate shows where it drew none now. */
function drawsOf(one, side) {
  const drawn = one.trials.filter((trial) => trial.side === side);
  if (drawn.length) return drawn;
  return (one.evidence || []).filter((shownAs) => shownAs.side === side).map((shownAs) => ({
    side, n: shownAs.n, answer: shownAs.answer, outcome: shownAs.judge ? "failed" : "passed", earlier: true,
    verdicts: shownAs.judge ? [{ judge: shownAs.judge, outcome: "fail", score: 0, reason: shownAs.reason }] : [],
  }));
}

/** The draw that tells most: a failing candidate beside a passing base. */
function firstDraw(draws, wanted) {
  return draws.find((trial) => trial.outcome === wanted) || draws[0];
}

function answersView(prompt, one, chosen) {
  const named = new Map(armsOf(prompt));
  const draws = Object.fromEntries([...named.keys()].map((side) => [side, drawsOf(one, side)]));
  const box = el("div", {});
  const pick = {};
  for (const side of named.keys()) {
    const better = one.verdict === "fixed" || one.verdict === "passed" ? "passed" : "failed";
    const wanted = side !== "base" ? better : better === "failed" ? "passed" : "failed";
    const asked = draws[side].find((trial) => String(trial.n) === chosen[side]);
    pick[side] = asked || firstDraw(draws[side], one.verdict === "passed" ? "passed" : wanted);
  }
  const sides = [...named.keys()].filter((side) => pick[side]);
  const both = sides.length > 1;
  const draw = () => {
    if (!sides.length) { box.replaceChildren(el("p", { class: "note" }, "No trial of this case is in the run.")); return; }
    const texts = Object.fromEntries(sides.map((side) => [side, readable(pick[side].answer ?? "")]));
    let pieces = Object.fromEntries(sides.map((side) => [side, [["same", texts[side]]]]));
    let note = null;
    if (both && reading.marked) {
      const [first, ...others] = sides;
      for (const side of others) {
        const found = wordDiff(texts[first], texts[side]);
        if (!found) { note = "These answers are too long to mark the words in which they differ."; break; }
        pieces = { ...pieces, [side]: found[1], ...(others.length === 1 ? { [first]: found[0] } : {}) };
      }
    }
    if (both && new Set(sides.map((side) => texts[side])).size === 1) {
      note = sides.length === 2 ? "Both outputs are equal." : "All outputs are equal.";
    }
    box.replaceChildren(...[
      el("div", { class: "options" },
        both && option("Mark what differs", "marked", draw),
        sides.some((side) => JSON_LIKE.test(pick[side].answer ?? "")) && option("Lay out JSON", "laid", draw)),
      note && el("p", { class: "note" }, note),
      el("div", { class: both ? "sides" : "sides one" }, sides.map((side) => pane(named.get(side), pick[side], draws[side], pieces[side], (trial) => {
        pick[side] = trial;
        const query = { ...routeOf(location.hash).query, [side]: String(trial.n) };
        history.replaceState(null, "", caseHash(prompt.name, one.id, query));
        draw();
      }))),
      verdictsView(prompt, sides, pick),
    ].filter(Boolean));
  };
  draw();
  return box;
}

function option(words, name, draw) {
  const box = el("input", { type: "checkbox", onchange: () => { reading[name] = box.checked; draw(); } });
  box.checked = reading[name];
  return el("label", {}, box, words);
}

function readable(answer) {
  if (!reading.laid || answer.length > DIFF_CHARS || !JSON_LIKE.test(answer)) return answer;
  try { return JSON.stringify(JSON.parse(answer), null, 2); } catch { return answer; }
}

function pane(name, trial, draws, pieces, onpick) {
  const choose = draws.length > 1 && el("select", { "aria-label": `Trial of ${name}`, onchange: () => onpick(draws[choose.selectedIndex]) },
    draws.map((one) => el("option", {}, `trial ${one.n}: ${one.outcome}`)));
  if (choose) choose.selectedIndex = draws.indexOf(trial);
  const nothing = trial.answer === undefined;
  return el("article", { class: "pane", "aria-label": name },
    el("header", {}, el("h3", {}, name), badge(trial.outcome),
      choose || el("span", { class: "quiet" }, `trial ${trial.n}${trial.earlier ? ", drawn before this run" : ""}`)),
    trial.refusal && el("p", { class: "text" }, `The model refused: ${trial.refusal}`),
    trial.cause && el("p", { class: "text" }, trial.cause.message),
    trial.cause && trial.cause.raw && textBlock([["same", trial.cause.raw]], "What the judge's model said"),
    nothing ? !trial.cause && el("p", { class: "text" }, "There is no answer.")
      : pieces.every(([, text]) => !text) ? el("p", { class: "text" }, "(an empty answer)") : textBlock(pieces, `Answer of ${name}`));
}

/** The short name of a side. */
const nameOfSide = (prompt, side) => new Map(prompt.models).get(side) || (side === "base" ? "Base" : "Candidate");

function verdictsView(prompt, sides, pick) {
  const judges = [...new Set(sides.flatMap((side) => pick[side].verdicts.map((said) => said.judge)))];
  if (!judges.length) return null;
  const rows = judges.flatMap((judge) => sides.map((side, place) => {
    const said = pick[side].verdicts.find((one) => one.judge === judge);
    return el("tr", {},
      place === 0 && el("th", { scope: "rowgroup", rowspan: sides.length }, judge),
      sides.length > 1 && el("td", {}, nameOfSide(prompt, side)),
      el("td", {}, said ? badge(said.outcome) : "–"),
      el("td", { class: "num" }, said ? String(Math.round(said.score * 1000) / 1000) : "–"),
      el("td", { class: "prose" }, said ? reasonOf(said) : ""));
  }));
  const heads = [["Judge"], sides.length > 1 && ["Of"], ["Verdict"], ["Score", "num"], ["Why"]].filter(Boolean);
  return el("div", {}, el("h2", {}, "Judges"), table("What each judge said", heads, rows, { class: "verdicts" }));
}

function reasonOf(said) {
  const parts = [el("div", {}, said.reason)];
  const shownValue = (words, value) => el("div", { class: "note" }, `${words}: `, el("code", {}, asJson(value)));
  if (said.outcome !== "pass" && said.expected !== undefined && said.expected !== null) parts.push(shownValue("Expected", said.expected));
  if (said.outcome !== "pass" && said.actual !== undefined && said.actual !== null) parts.push(shownValue("Found", said.actual));
  if (said.gates === false) parts.push(el("div", { class: "note" }, `Informs only${said.standing ? `: ${said.standing}` : ""}.`));
  else if (said.standing) parts.push(el("div", { class: "note" }, said.standing));
  if (said.calls) parts.push(el("div", { class: "note" }, `${said.calls} model ${said.calls === 1 ? "call" : "calls"}, ${money(said.cost_usd)}, ${duration(said.latency_s)}`));
  return parts;
}

function goldenView(one) {
  const { golden } = one;
  const inputs = Object.entries(golden.inputs || {});
  const block = (words, value) => el("article", { class: "pane", "aria-label": words },
    el("header", {}, el("h3", {}, words)), textBlock([["same", asJson(value)]], words));
  return [
    el("h2", {}, "Input and expected"),
    golden.problem && el("p", { class: "warning" }, golden.problem),
    (inputs.length || golden.expected !== undefined) && el("div", { class: golden.expected !== undefined ? "sides" : "sides one" },
      el("div", { class: "inputs" }, inputs.map(([name, value]) => block(`Input: ${name}`, value))),
      golden.expected !== undefined && el("div", { class: "inputs" }, block("Expected", golden.expected))),
  ].filter(Boolean);
}

function checksView(one) {
  if (!one.checks || !one.checks.length) return null;
  const count = (given) => (given.trials ? `${given.passed} of ${given.trials}` : "–");
  const number = (value) => (value === undefined || value === null ? "–" : value >= 100 ? Math.round(value).toLocaleString("en") : value.toPrecision(2));
  return [el("h2", {}, "What the gate weighed"), table("What the gate weighed",
    [["Check"], ["Verdict"], ["Base before", "num"], ["Base today", "num"], ["Candidate", "num"], ["E-value", "num"], ["Broken from", "num"]],
    one.checks.map((check) => el("tr", {}, el("th", { scope: "row" }, check.check), el("td", {}, check.verdict),
      [check.before, check.today, check.candidate].map((given) => el("td", { class: "num" }, count(given))),
      el("td", { class: "num" }, number(check.e_value)), el("td", { class: "num" }, number(check.bound))))),
    el("p", { class: "note" }, "E-value: how many times likelier these counts are if the candidate is worse than if it is not. From the value of the last column, a case is broken.")];
}

function trialsView(prompt, one) {
  if (!one.trials.length) return null;
  const names = { recording: "recording", store: "local store", live: "asked for now" };
  const several = REPORT.base || prompt.models.length;
  return [el("h2", {}, "All trials"), table("All trials",
    [several && ["Of"], ["Trial", "num"], ["Outcome"], ["Failed by"], ["From"], ["Latency", "num"], ["Tokens", "num"], ["Cost", "num"], ["Answered by"], ["Ended"], ["Request"]].filter(Boolean),
    one.trials.map((trial) => el("tr", {},
      several && el("th", { scope: "row" }, nameOfSide(prompt, trial.side)),
      el("td", { class: "num" }, String(trial.n)), el("td", {}, badge(trial.outcome)),
      el("td", {}, trial.verdicts.filter((said) => said.outcome === "fail").map(nameOf).join(", ") || (trial.cause ? trial.cause.kind : "–")),
      el("td", {}, names[trial.source] || "–"), el("td", { class: "num" }, duration(trial.latency_s)),
      el("td", { class: "num" }, `${trial.input_tokens} + ${trial.output_tokens}`),
      el("td", { class: "num" }, trial.source ? money(trial.cost_usd) : "–"),
      el("td", {}, [trial.answered_by, trial.fingerprint].filter(Boolean).join(", ") || "–"),
      el("td", {}, trial.finish_reason || "–"),
      el("td", {}, el("code", { title: trial.request_digest }, trial.request_digest.slice(0, 12))))))];
}

function originView(prompt, one) {
  const of = (trial) => (REPORT.base && !prompt.models.length ? (trial.side === "base" ? "base " : "candidate ") : "");
  const model = (trial) => `${trial.model}${trial.model.startsWith("sim:") ? " (simulated)" : ""}`;
  const versions = [...new Set(one.trials.map((trial) =>
    `${of(trial)}${trial.version || "unversioned"} (${trial.prompt_digest.slice(0, 12)}) with ${model(trial)}`))];
  const { golden } = one;
  return [el("h2", {}, "Where it comes from"), pairs([
    ["Prompt", `${prompt.name}${versions.length ? `, ${versions.join("; ")}` : ""}`],
    ["Golden case", golden.location || (one.dataset && `${one.dataset}, ${one.id}`)],
    ["Source", golden.source], ["Licence", golden.licence], ["Note", golden.note], ["Item", one.node && el("code", {}, one.node)],
  ])];
}
