// The lines of the prompt open and close, have addresses, and take keys.

const lines = [...document.querySelectorAll(".prompt details")];
const NEEDS_WORK = lines.filter((line) => line.dataset.work);
let last = null;

function focusLine(line) {
  last = line;
  const summary = line.querySelector("summary");
  summary.focus({ preventScroll: true });
  summary.scrollIntoView({ block: "nearest" });
}

/** Focus the next of some lines in a direction, from the line that has or had the focus. */
function step(among, direction) {
  const current = lines.find((line) => line.contains(document.activeElement)) || last;
  const place = current ? lines.indexOf(current) : -1;
  const next = direction > 0 ? among.find((line) => lines.indexOf(line) > place)
    : among.findLast((line) => lines.indexOf(line) < place);
  if (next) focusLine(next);
}

function markDifferences(line) {
  for (const sides of line.querySelectorAll(".outputs")) {
    const [base, mutant] = sides.querySelectorAll("pre");
    const diff = wordDiff(base.textContent, mutant.textContent);
    if (!diff) continue;
    [base, mutant].forEach((block, place) => block.replaceChildren(
      ...diff[place].map(([kind, text]) => (kind === "same" ? document.createTextNode(text) : el(kind, {}, text)))));
  }
}

function goToAddress() {
  const line = lines.find(({ id }) => `#${id}` === location.hash);
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
    const direction = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!direction) return;
    event.preventDefault();
    step(lines, direction);
  });
}

listen({
  j: () => step(lines, 1),
  k: () => step(lines, -1),
  n: () => step(NEEDS_WORK, 1),
  p: () => step(NEEDS_WORK, -1),
  Escape: () => {
    const line = lines.find((element) => element.contains(document.activeElement)) || last;
    if (!line) return;
    line.open = false;
    focusLine(line);
  },
});
themed();
addEventListener("hashchange", goToAddress);
goToAddress();
