// The theme: Airflow's, read from the root element of the Airflow page that frames this page; otherwise the system's.

const SYSTEM = window.matchMedia("(prefers-color-scheme: dark)");

function airflowsRoot() {
  try {
    return window.parent === window ? null : window.parent.document.documentElement;
  } catch {
    return null; // framed by another origin
  }
}

function currentTheme() {
  const root = airflowsRoot();
  if (root) {
    if (root.classList.contains("dark") || root.dataset.theme === "dark") return "dark";
    if (root.classList.contains("light") || root.dataset.theme === "light") return "light";
  }
  return SYSTEM.matches ? "dark" : "light";
}

/** Sets the theme now and whenever it changes; calls `changed` after each change but the first. */
export function followTheme(changed) {
  const apply = () => {
    if (document.documentElement.dataset.theme === currentTheme()) return;
    document.documentElement.dataset.theme = currentTheme();
    changed();
  };
  document.documentElement.dataset.theme = currentTheme();
  SYSTEM.addEventListener("change", apply);
  const root = airflowsRoot();
  if (root) new MutationObserver(apply).observe(root, { attributes: true, attributeFilter: ["class", "data-theme", "style"] });
}

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
