// Elements, colours and numbers for all other scripts of the page.
"use strict";

function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  Object.assign(made, properties);
  made.append(...children);
  return made;
}

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const isNumber = (value) => typeof value === "number";
// A number with three digits that matter; a whole one, such as a count, has all.
function rounded(value) {
  const size = Math.abs(value);
  if (Number.isInteger(value)) return String(value);
  if (size >= 1e15 || size < 1e-6) return value.toExponential(2);
  return size >= 100 ? value.toFixed(0) : value.toPrecision(3);
}

const short = (value) => (isNumber(value) ? rounded(value) : value === null ? "" : String(value));
const axisTitle = (axis) => (axis.unit ? `${axis.title} (${axis.unit})` : axis.title);
