// The lines of the prompt: they open and close, have addresses, and are reached by keys.

const lines = [...document.querySelectorAll(".prompt details")];
const NEEDS_WORK = lines.filter((line) => line.dataset.work);
let last = null;

function focusLine(line) {
  last = line;
  const summary = line.querySelector("summary");
  summary.focus({ preventScroll: true });
  summary.scrollIntoView({ block: "nearest" });
}

/** The next line of some in a direction, from the one that has or had the focus. */
function step(among, by) {
  const here = lines.find((line) => line.contains(document.activeElement)) || last;
  const at = here ? lines.indexOf(here) : -1;
  const next = by > 0 ? among.find((line) => lines.indexOf(line) > at)
    : among.findLast((line) => lines.indexOf(line) < at);
  if (next) focusLine(next);
}

function markDifferences(line) {
  for (const sides of line.querySelectorAll(".outputs")) {
    const [base, mutant] = sides.querySelectorAll("pre");
    const found = wordDiff(base.textContent, mutant.textContent);
    if (!found) continue;
    [base, mutant].forEach((block, place) => block.replaceChildren(
      ...found[place].map(([kind, text]) => (kind === "same" ? document.createTextNode(text) : el(kind, {}, text)))));
  }
}

function goToAddress() {
  const line = lines.find((one) => `#${one.id}` === location.hash);
  if (!line) return;
  line.open = true;
  focusLine(line);
}

for (const line of lines) {
  line.addEventListener("toggle", () => {
    if (!line.open) return;
    if (!line.dataset.marked) markDifferences(line);
    line.dataset.marked = "yes";
    history.replaceState(null, "", `#${line.id}`);
  });
  line.querySelector("summary").addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    step(lines, by);
  });
}

listen({
  j: () => step(lines, 1),
  k: () => step(lines, -1),
  n: () => step(NEEDS_WORK, 1),
  p: () => step(NEEDS_WORK, -1),
  Escape: () => {
    const line = lines.find((one) => one.contains(document.activeElement)) || last;
    if (!line) return;
    line.open = false;
    focusLine(line);
  },
});
themed();
addEventListener("hashchange", goToAddress);
goToAddress();
