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
const short = (value) =>
  isNumber(value) ? String(Number(value.toPrecision(6))) : value === null ? "" : String(value);
const axisTitle = (axis) => (axis.unit ? `${axis.title} (${axis.unit})` : axis.title);
const rounded = (value) => String(Number(value.toPrecision(4)));
