// Keys with their list, and the theme, of every page.

const help = document.getElementById("help");

function listen(keys) {
  const actions = { ...keys, "?": () => help.showModal() };
  const open = document.getElementById("help-open");
  open.hidden = false;
  open.addEventListener("click", () => help.showModal());
  document.getElementById("help-close").addEventListener("click", () => help.close());
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    if (event.target.closest("input, select, textarea") && event.key !== "Escape") return;
    if (event.target.closest("input, select")) { event.target.blur(); return; }
    if (Object.hasOwn(actions, event.key)) { event.preventDefault(); actions[event.key](); }
  });
}

function themed() {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const name = () => { button.textContent = dark() ? "Light" : "Dark"; };
  try { const theme = localStorage.getItem("regauge-theme"); if (theme === "dark" || theme === "light") root.dataset.theme = theme; } catch { /* no storage: no memory */ }
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("regauge-theme", root.dataset.theme); } catch { /* as above */ }
    name();
  });
  name();
}
