// The page of one case: what it was given, what was answered, what each judge said, every trial.

const ARMS = { base: `Base (${REPORT.base})`, candidate: REPORT.base ? "Candidate" : "Answer" };
/** The arms of a prompt's trials with their names: several models, or base and candidate. */
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

/** The draws of an arm that have an answer; those the gate shows where it drew none now. */
function drawsOf(one, arm) {
  const drawn = one.trials.filter((trial) => trial.arm === arm);
  if (drawn.length) return drawn;
  return (one.evidence || []).filter((shownAs) => shownAs.arm === arm).map((shownAs) => ({
    arm, n: shownAs.n, answer: shownAs.answer, outcome: shownAs.judge ? "failed" : "passed", earlier: true,
    verdicts: shownAs.judge ? [{ judge: shownAs.judge, outcome: "fail", score: 0, reason: shownAs.reason }] : [],
  }));
}

/** The draw that tells most: a failing candidate beside a passing base. */
function firstDraw(draws, wanted) {
  return draws.find((trial) => trial.outcome === wanted) || draws[0];
}

function answersView(prompt, one, chosen) {
  const named = new Map(armsOf(prompt));
  const draws = Object.fromEntries([...named.keys()].map((arm) => [arm, drawsOf(one, arm)]));
  const box = el("div", {});
  const pick = {};
  for (const arm of named.keys()) {
    const better = one.verdict === "fixed" || one.verdict === "passed" ? "passed" : "failed";
    const wanted = arm !== "base" ? better : better === "failed" ? "passed" : "failed";
    const asked = draws[arm].find((trial) => String(trial.n) === chosen[arm]);
    pick[arm] = asked || firstDraw(draws[arm], one.verdict === "passed" ? "passed" : wanted);
  }
  const arms = [...named.keys()].filter((arm) => pick[arm]);
  const both = arms.length > 1;
  const draw = () => {
    if (!arms.length) { box.replaceChildren(el("p", { class: "note" }, "No trial of this case is in the run.")); return; }
    const texts = Object.fromEntries(arms.map((arm) => [arm, readable(pick[arm].answer ?? "")]));
    let pieces = Object.fromEntries(arms.map((arm) => [arm, [["same", texts[arm]]]]));
    let note = null;
    if (both && reading.marked) {
      const [first, ...others] = arms;
      for (const arm of others) {
        const found = wordDiff(texts[first], texts[arm]);
        if (!found) { note = "These answers are too long to mark the words in which they differ."; break; }
        pieces = { ...pieces, [arm]: found[1], ...(others.length === 1 ? { [first]: found[0] } : {}) };
      }
    }
    if (both && new Set(arms.map((arm) => texts[arm])).size === 1) {
      note = arms.length === 2 ? "Both answers are the same text." : "All answers are the same text.";
    }
    box.replaceChildren(...[
      el("div", { class: "options" },
        both && option("Mark what differs", "marked", draw),
        arms.some((arm) => JSON_LIKE.test(pick[arm].answer ?? "")) && option("Lay out JSON", "laid", draw)),
      note && el("p", { class: "note" }, note),
      el("div", { class: both ? "sides" : "sides one" }, arms.map((arm) => pane(named.get(arm), pick[arm], draws[arm], pieces[arm], (trial) => {
        pick[arm] = trial;
        const query = { ...routeOf(location.hash).query, [arm]: String(trial.n) };
        history.replaceState(null, "", caseHash(prompt.name, one.id, query));
        draw();
      }))),
      verdictsView(prompt, arms, pick),
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

/** The short name of an arm. */
const nameOfArm = (prompt, arm) => new Map(prompt.models).get(arm) || (arm === "base" ? "Base" : "Candidate");

function verdictsView(prompt, arms, pick) {
  const judges = [...new Set(arms.flatMap((arm) => pick[arm].verdicts.map((said) => said.judge)))];
  if (!judges.length) return null;
  const rows = judges.flatMap((judge) => arms.map((arm, place) => {
    const said = pick[arm].verdicts.find((one) => one.judge === judge);
    return el("tr", {},
      place === 0 && el("th", { scope: "rowgroup", rowspan: arms.length }, judge),
      arms.length > 1 && el("td", {}, nameOfArm(prompt, arm)),
      el("td", {}, said ? badge(said.outcome) : "–"),
      el("td", { class: "num" }, said ? String(Math.round(said.score * 1000) / 1000) : "–"),
      el("td", { class: "prose" }, said ? reasonOf(said) : ""));
  }));
  const heads = [["Judge"], arms.length > 1 && ["Of"], ["Verdict"], ["Score", "num"], ["Why"]].filter(Boolean);
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
      several && el("th", { scope: "row" }, nameOfArm(prompt, trial.arm)),
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
  const of = (trial) => (REPORT.base && !prompt.models.length ? (trial.arm === "base" ? "base " : "candidate ") : "");
  const model = (trial) => `${trial.model}${trial.model.startsWith("sim:") ? " (simulated)" : ""}`;
  const versions = [...new Set(one.trials.map((trial) =>
    `${of(trial)}${trial.version || "unversioned"} (${trial.prompt_digest.slice(0, 12)}) with ${model(trial)}`))];
  const { golden } = one;
  return [el("h2", {}, "Where it comes from"), pairs([
    ["Prompt", `${prompt.name}${versions.length ? `, ${versions.join("; ")}` : ""}`],
    ["Golden case", golden.at || (one.dataset && `${one.dataset}, ${one.id}`)],
    ["Source", golden.source], ["Licence", golden.licence], ["Note", golden.note], ["Item", one.node && el("code", {}, one.node)],
  ])];
}
