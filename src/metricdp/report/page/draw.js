// Small tools for elements, numbers and colours. Text only ever enters the page as text.

const byId = (id) => document.getElementById(id);

function element(tag, options = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(options)) {
    if (key === "text") made.textContent = value;
    else if (key === "class") made.className = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function svg(tag, options = {}, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(options)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

function percent(p) {
  if (p === 0) return "0 %";
  if (p < 1e-4) return "< 0.01 %";
  if (p > 0.9995 && p < 1) return "> 99.9 %";
  const value = 100 * p;
  return `${value.toFixed(value >= 99.95 ? 0 : value >= 10 ? 1 : 2)} %`;
}

function gapPercent(gap) {
  return gap === 0 ? "0 %" : `${Number((100 * gap).toPrecision(2))} %`;
}

function number(value, digits = 4) {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e9)) return value.toExponential(digits - 1).replace(/\.?0+e/, "e").replace("e+", "e");
  return new Intl.NumberFormat("en", { maximumSignificantDigits: digits }).format(value);
}

/** A budget, rounded up: never a smaller one than was spent. */
function budget(value, digits) {
  const near = Number(value.toPrecision(digits));
  return number(near >= value ? near : near + 10 ** (Math.floor(Math.log10(value)) - digits + 1), digits);
}

const count = (value) => new Intl.NumberFormat("en").format(value);
const many = (value, one, more = `${one}s`) => `${count(value)} ${value === 1 ? one : more}`;
const inUnit = (value, unit, digits) => `${number(value, digits)}${unit ? ` ${unit}` : ""}`;
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function figure(name, value, note = "", wide = false) {
  const box = element("div", wide ? { class: "wide" } : {}, element("dt", { text: name }));
  const said = element("dd", { text: value });
  if (note) said.append(element("small", { text: note }));
  box.append(said);
  return box;
}
