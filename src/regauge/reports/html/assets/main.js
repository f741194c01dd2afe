// Addresses and keys.

const prompts = new Map(REPORT.prompts.map((prompt) => [prompt.name, prompt]));
const tables = new Map();
const views = [...document.querySelectorAll("section.view")];
const caseSection = document.getElementById("view-case");
const live = document.getElementById("live");
let trail = null;

function announce(words) { live.textContent = words; }

function withQuery(path, query) {
  const words = Object.entries(query || {}).filter(([, value]) => value)
    .map(([name, value]) => `${encoded(name)}=${encoded(value)}`).join("&");
  return words ? `${path}?${words}` : path;
}

const promptHash = (name, filter) => withQuery(`#/prompt/${encoded(name)}`, filter);
const caseHash = (name, id, query) => withQuery(`#/case/${encoded(name)}/${encoded(id)}`, query);
const caseAddress = (prompt, testCase) => `${testCase.page ? `${REPORT.directory}/${testCase.page}.html` : ""}${caseHash(prompt.name, testCase.id)}`;
const navigate = (address) => { if (address.startsWith("#")) location.hash = address; else location.assign(address); };

function routeOf(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  const read = (text) => { try { return decodeURIComponent(text); } catch { return text; } };
  return {
    parts: path.split("/").map(read),
    query: Object.fromEntries((query || "").split("&").filter(Boolean).map((pair) => {
      const [name, ...value] = pair.split("=");
      return [read(name), read(value.join("="))];
    })),
  };
}

function route() {
  if (location.hash === "#main") return;
  const { parts: [kind, name, id], query } = routeOf(location.hash);
  const prompt = prompts.get(name);
  const section = name !== undefined && views.find((view) => view.dataset.prompt === name);
  const testCase = kind === "case" && prompt && prompt.byId.get(id);
  if (!kind) show(document.getElementById("view-overview"), "");
  else if (kind === "prompt" && section) {
    show(section, name);
    tableOf(name)?.apply(query);
  } else if (testCase && testCase.page) location.replace(caseAddress(prompt, testCase));
  else if (testCase) {
    const rows = tableOf(name).rows;
    caseSection.replaceChildren(...caseView(prompt, testCase, rows.indexOf(testCase), rows, query));
    show(caseSection, name);
  } else show(document.getElementById("view-lost"), null);
}

function tableOf(name) {
  const prompt = prompts.get(name);
  if (!prompt || !prompt.cases.length) return null;
  if (!tables.has(name)) {
    const mount = views.find((view) => view.dataset.prompt === name).querySelector(".cases");
    const caseTable = new CaseTable(prompt, mount);
    tables.set(name, caseTable);
    caseTable.apply({});
  }
  return tables.get(name);
}

function show(section, nav) {
  const key = location.hash.split("?")[0];
  for (const view of views) view.hidden = view !== section;
  for (const link of document.querySelectorAll("[data-nav]")) {
    if (link.dataset.nav === nav) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (key === trail) return;
  const first = trail === null;
  trail = key;
  scrollTo(0, 0);
  if (!first) section.querySelector("h1")?.focus({ preventScroll: true });
}

function stepTo(rel) {
  const link = !caseSection.hidden && caseSection.querySelector(`a[rel=${rel}]`);
  if (link) navigate(link.getAttribute("href"));
}

const KEYS = {
  "/": () => {
    const view = views.find((section) => !section.hidden && section.dataset.prompt);
    const name = view ? view.dataset.prompt : routeOf(location.hash).parts[1] || REPORT.prompts[0]?.name;
    if (!prompts.has(name)) return;
    if (!view) { navigate(promptHash(name, tables.get(name)?.filter)); route(); }
    tableOf(name)?.search.focus();
  },
  j: () => stepTo("next"),
  k: () => stepTo("prev"),
  o: () => navigate(`${HOME}#/`),
  Escape: () => { if (!caseSection.hidden) navigate(document.getElementById("back").getAttribute("href")); },
};

for (const prompt of REPORT.prompts) prepare(prompt);
listen(KEYS);
themed();
addEventListener("hashchange", route);
addEventListener("beforeprint", () => { for (const caseTable of tables.values()) caseTable.paint(true); });
addEventListener("afterprint", () => { for (const caseTable of tables.values()) caseTable.paint(); });
route();

// Searched texts are computed in short steps, so that no key waits for them.
const unsearched = REPORT.prompts.flatMap((prompt) => prompt.cases);
let place = 0;
function prepareSearch() {
  const end = performance.now() + 8;
  while (place < unsearched.length && performance.now() < end) searchText(unsearched[place++]);
  if (place < unsearched.length) setTimeout(prepareSearch, 16);
}
setTimeout(prepareSearch, 50);
