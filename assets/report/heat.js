// Heat maps: how often something happened, by x and y.

// The rectangles of a heat map, as strong as in pictures: by the logarithm of the count.
function heatOption({ columns, rows, cells }, tint) {
  const most = cells.reduce((a, [, , count]) => Math.max(a, count), 1);
  const opacity = (count) => 0.12 + 0.88 * (most > 1 ? Math.log(count) / Math.log(most) : 1);
  return {
    silent: true,
    animation: false,
    itemStyle: { color: tint },
    data: cells.map(([column, row, count]) => [
      { xAxis: columns[column], yAxis: rows[row], itemStyle: { opacity: opacity(count) } },
      { xAxis: columns[column + 1], yAxis: rows[row + 1] },
    ]),
  };
}

// The series that draws a heat map.
function heatSeries(series, common, tint) {
  const { columns, rows } = series.heat;
  // Invisible points, one for each column, for the axes and the cursor.
  const point = (start, at) => [(start + columns[at + 1]) / 2, rows[at === 0 ? rows.length - 1 : 0]];
  const data = columns.slice(0, -1).map(point);
  return { ...common, type: "scatter", symbolSize: 0, silent: true, data, markArea: heatOption(series.heat, tint) };
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
