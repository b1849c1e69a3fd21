// What belongs to each chart: its buttons, and its table.

// Buttons to zoom, to undo it, and to save a picture. `draw` draws the chart if it is not drawn yet,
// and `showAll` undoes the zoom.
function chartTools(entry, draw, showAll) {
  const button = (textContent, act) => {
    const made = element("button", { type: "button", textContent });
    made.setAttribute("aria-label", `${textContent}: ${entry.chart.title}`);
    made.addEventListener("click", () => {
      draw(entry);
      act();
    });
    return made;
  };
  const zoom = button("Zoom", () => {
    entry.setZooming(!entry.isZooming);
    const zooms = { key: "dataZoomSelect", dataZoomSelectActive: entry.isZooming };
    entry.instance.dispatchAction({ type: "takeGlobalCursor", ...zooms });
  });
  entry.setZooming = (zooms) => {
    entry.isZooming = zooms;
    zoom.setAttribute("aria-pressed", String(zooms));
  };
  entry.setZooming(false);
  const all = button("Show all", () => showAll(entry));
  const save = button("PNG", () => {
    const href = entry.instance.getDataURL({ type: "png", pixelRatio: 2, backgroundColor: css("--panel") });
    element("a", { href, download: `${entry.chart.name}.png` }).click();
  });
  return element("div", { className: "tools" }, zoom, all, save);
}

// The values of a chart, which are filled in when they are opened: those of `shown()`, in at most
// `most()` rows.
function chartTable(entry, shown, most) {
  const { title } = entry.chart;
  const box = element("div", { className: "scroll", tabIndex: 0 });
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", `Table: ${title}`);
  const details = element("details", { className: "values" }, element("summary", { textContent: "Table" }), box);
  const cell = (scope) => (textContent, at) =>
    at === 0 || scope === "col"
      ? element("th", { textContent, scope })
      : element("td", { textContent, className: "number" });
  entry.fillTable = () => {
    if (!details.open) return;
    const { columns, lines } = chartText.table(shown());
    const { lines: some, note } = chartText.sampled(lines, most());
    const line = (cells, scope) => element("tr", {}, ...cells.map(cell(scope)));
    const caption = element("caption", { textContent: note ? `${title}. ${note}` : title });
    const head = element("thead", {}, line(columns, "col"));
    const body = element("tbody", {}, ...some.map((cells) => line(cells, "row")));
    box.replaceChildren(element("table", {}, caption, head, body));
  };
  details.addEventListener("toggle", entry.fillTable);
  entry.details = details;
  return details;
}
