// How a time is selected: with fields, and by dragging over a chart.

// The fields, and what was selected. `select` gets a range, or null. Returns the form, and what shows a
// selection.
function timeFields(requests, end, select) {
  const field = (text, name) => {
    const input = element("input", { type: "number", min: 0, step: "any", name });
    return { input, label: element("label", {}, text, input, " s") };
  };
  const [from, to] = [field("Select from ", "from"), field("to ", "to")];
  const clear = element("button", { type: "button", textContent: "Clear (Esc)" });
  clear.addEventListener("click", () => select(null));
  const output = element("output");
  const parts = [from.label, to.label, element("button", { textContent: "Select" }), clear, output];
  const form = element("form", { className: "selection" }, ...parts);
  form.setAttribute("aria-label", "Time to show");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const value = (input, otherwise) => (input.value === "" ? otherwise : Number(input.value));
    const range = { from: value(from.input, 0), to: value(to.input, timeSelection.rounded(end, end)) };
    if (range.from < Math.min(range.to, end)) select(range);
    else output.textContent = "The end must be after the start, which must be within the run";
  });
  const show = (selected) => {
    from.input.value = selected ? selected.from : "";
    to.input.value = selected ? selected.to : "";
    clear.disabled = !selected;
    output.textContent = selected
      ? timeSelection.summary(requests, selected)
      : "Or drag over a chart over time to see only what started in it";
  };
  return { form, show };
}

// Selects the time over which a pointer is dragged in a chart over time until `end`. `show` gets a
// range while it is dragged, or null.
function selectByDragging(instance, end, { isActive, show, select }) {
  const pointer = instance.getZr();
  let start = null;
  const time = (x) => Math.min(Math.max(instance.convertFromPixel({ xAxisIndex: 0 }, x), 0), end);
  const range = (x) => {
    const ends = [start, x].map((at) => timeSelection.rounded(time(at), end));
    const [from, to] = ends.sort((a, b) => a - b);
    // A click does not select.
    return Math.abs(x - start) >= 5 && from < to ? { from, to } : null;
  };
  pointer.on("mousedown", ({ offsetX, offsetY }) => {
    if (isActive() && instance.containPixel("grid", [offsetX, offsetY])) start = offsetX;
  });
  pointer.on("mousemove", ({ offsetX }) => start !== null && show(range(offsetX)));
  pointer.on("mouseup", ({ offsetX }) => {
    if (start === null) return;
    const found = range(offsetX);
    start = null;
    if (found) select(found);
  });
}
