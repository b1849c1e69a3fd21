// Heat maps: how often something happened, by x and y.

// A picture of the rectangles, which are as strong as in the files of `aiperf plot`: by the logarithm of
// the count. Rows have the same height. Thousands of shapes would make the page slow.
function heatPicture({ columns, rows, cells }, tint) {
  const picture = element("canvas", { width: 1440, height: 8 * (rows.length - 1) });
  const pen = picture.getContext("2d");
  const most = cells.reduce((a, [, , count]) => Math.max(a, count), 1);
  const x = (at) => Math.round(((columns[at] - columns[0]) / (columns[columns.length - 1] - columns[0])) * picture.width);
  pen.fillStyle = tint;
  for (const [column, row, count] of cells) {
    pen.globalAlpha = 0.12 + 0.88 * (most > 1 ? Math.log(count) / Math.log(most) : 1);
    pen.fillRect(x(column), picture.height - 8 * (row + 1), x(column + 1) - x(column), 8);
  }
  return picture;
}

// Puts the picture of a heat map on the axes of a chart, and keeps it there when these are zoomed.
function showHeat(instance, heat, tint) {
  const image = new echarts.graphic.Image({ silent: true, z: 1, style: { image: heatPicture(heat, tint) } });
  let shown = "";
  const place = () => {
    const [left, bottom] = instance.convertToPixel("grid", [heat.columns[0], heat.rows[0]]);
    const [right, top] = instance.convertToPixel("grid", [heat.columns, heat.rows].map((ends) => ends[ends.length - 1]));
    const shape = instance.getModel().getComponent("grid").coordinateSystem.getRect();
    const now = JSON.stringify([left, bottom, right, top, shape]);
    if (now === shown) return;
    shown = now;
    image.setStyle({ x: left, y: top, width: right - left, height: bottom - top });
    image.setClipPath(new echarts.graphic.Rect({ shape: { ...shape } }));
  };
  instance.getZr().add(image);
  instance.on("rendered", place);
  place();
}

// The series of a heat map: invisible points, one for each column, for the axes and the cursor.
function heatSeries(series, common) {
  const { columns, rows } = series.heat;
  const point = (start, at) => [(start + columns[at + 1]) / 2, rows[at === 0 ? rows.length - 1 : 0]];
  return { ...common, type: "scatter", symbolSize: 0, silent: true, data: columns.slice(0, -1).map(point) };
}

// Ends the y axis of a heat map with its rows, which are not round numbers.
function heatAxis(chart, axis) {
  for (const { heat } of chart.series) {
    if (!heat) continue;
    Object.assign(axis, { min: heat.rows[0], max: heat.rows[heat.rows.length - 1] });
    Object.assign(axis.axisLabel, { showMinLabel: false, showMaxLabel: false });
  }
}

// The values of a column of a heat map.
function heatTooltip(chart, [item]) {
  const box = element("div", { className: "tip" });
  const { heat } = chart.series[0];
  const column = item && chartText.heatColumns(heat)[item.dataIndex];
  if (!column) return box;
  const { total, least, half, most } = column;
  const [from, to] = [heat.columns[item.dataIndex], heat.columns[item.dataIndex + 1]];
  const range = `${chart.series[0].name}: ${total} from ${rounded(least)} to ${rounded(most)} ${chart.y.unit}`;
  const lines = [`${chart.x.title}: ${short(from)} to ${short(to)} ${chart.x.unit}`, range, `half below ${rounded(half)} ${chart.y.unit}`];
  box.append(...lines.map((textContent) => element("div", { textContent })));
  return box;
}
