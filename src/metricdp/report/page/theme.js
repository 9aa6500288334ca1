// What is read out, and light and dark: `stage` is what is drawn, where there is something yet.

let stage;

function announce(text) {
  byId("live").textContent = text;
}

/** Show a sign of the legend only while the map has it; its place stays, so that the map keeps its size. */
function showSign(sign, isShown) {
  const found = document.querySelector(`#legend .${sign}`);
  if (found) found.parentElement.style.visibility = isShown ? "" : "hidden";
}

function startTheme() {
  const root = document.documentElement, system = matchMedia("(prefers-color-scheme: dark)");
  let wanted = null;
  try {
    wanted = localStorage.getItem("metricdp-theme");
  } catch {
    // a page from disk may have no storage: the choice then lasts as long as the page
  }
  const apply = () => {
    const isDark = wanted ? wanted === "dark" : system.matches;
    root.dataset.theme = isDark ? "dark" : "light";
    byId("theme").setAttribute("aria-pressed", String(isDark));
    byId("theme-sign").textContent = isDark ? "☀" : "☾";
    byId("theme-word").textContent = isDark ? "Light" : "Dark";
    byId("theme").setAttribute("aria-label", "Dark theme");
    if (stage) stage.paint();
  };
  system.addEventListener("change", apply);
  byId("theme").addEventListener("click", () => {
    wanted = root.dataset.theme === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("metricdp-theme", wanted);
    } catch {
      // as above
    }
    apply();
  });
  apply();
}
