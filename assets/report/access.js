// Charts in words and as tables, for readers who do not see them.
const chartText = (() => {
  const shown = (value) => (value === undefined ? "" : short(value));
  const SHAPES = { line: "Line", steps: "Line", area: "Area", stack: "Stacked", points: "Scatter", heat: "Heat", spans: "Bar" };

  // What a chart shows, in a sentence for each series.
  function label(chart) {
    const shape = chart.series.length > 0 ? `${SHAPES[chart.series[0].shape]} chart. ` : "";
    const parts = chart.series.map(({ name, points, heat, shape }) => {
      if (shape === "spans") return `${name}: ${(points.length / 2).toLocaleString("en-US")} bars.`;
      const values = points.map(([, y]) => y).filter((y) => y !== null);
      if (values.length === 0) return `${name}: no values.`;
      const low = values.reduce((a, b) => Math.min(a, b), Infinity);
      const high = values.reduce((a, b) => Math.max(a, b), -Infinity);
      const count = heat ? heat.cells.reduce((sum, [, , many]) => sum + many, 0) : values.length;
      const many = `${count.toLocaleString("en-US")} ${heat ? "in all" : count === 1 ? "value" : "values"}`;
      return `${name}: ${shown(low)} to ${shown(high)} ${chart.y.unit}, ${many}.`;
    });
    return `${shape}${axisTitle(chart.y)} by ${axisTitle(chart.x)}. ${parts.join(" ")}`;
  }

  // What is in each column of a heat map: its number, and the rows at which it starts, half and all are
  // reached; null for an empty column.
  function heatColumns({ columns, rows, cells }) {
    const found = columns.slice(1).map(() => []);
    for (const [column, row, count] of cells) found[column].push([row, count]);
    return found.map((counts) => {
      if (counts.length === 0) return null;
      counts.sort((a, b) => a[0] - b[0]);
      const total = counts.reduce((sum, [, count]) => sum + count, 0);
      let sum = 0;
      const [middle] = counts.find(([, count]) => (sum += count) * 2 >= total);
      return { total, least: rows[counts[0][0]], half: rows[middle + 1], most: rows[counts[counts.length - 1][0] + 1] };
    });
  }

  function heatTable(chart, heat) {
    const of = axisTitle(chart.y);
    return {
      columns: [axisTitle(chart.x), "Number", `${of}: all above`, `${of}: half below`, `${of}: all below`],
      lines: heatColumns(heat).flatMap((found, at) =>
        found ? [[heat.columns[at], found.total, found.least, found.half, found.most].map(shown)] : [],
      ),
    };
  }

  function cell(series, row) {
    const value = shown(series.points[row][1]);
    const interval = series.intervals && series.intervals[row];
    return interval ? `${value} (${shown(interval[0])} to ${shown(interval[1])})` : value;
  }

  // The columns and lines of a chart: a line for each x if the series share it, else for each point.
  function table(chart) {
    const [first] = chart.series;
    if (!first) return { columns: [], lines: [] };
    if (first.heat) return heatTable(chart, first.heat);
    if (first.shape === "spans") return spanTable(chart);
    const isSame = (points) => points.length === first.points.length && points.every(([x], row) => x === first.points[row][0]);
    const x = axisTitle(chart.x);
    if (chart.series.every(({ points }) => isSame(points))) {
      const name = (row) => (first.labels ? first.labels[row] : shown(first.points[row][0]));
      const unit = chart.y.unit ? ` (${chart.y.unit})` : "";
      return {
        columns: [first.labels ? chart.x.title : x, ...chart.series.map((series) => series.name + unit)],
        lines: first.points.map((_, row) => [name(row), ...chart.series.map((series) => cell(series, row))]),
      };
    }
    return {
      columns: [x, axisTitle(chart.y), "Series"],
      lines: chart.series.flatMap((series) =>
        series.points.map((point, row) => {
          const label = series.labels ? `, ${series.labels[row]}` : "";
          return [shown(point[0]), cell(series, row), series.name + label];
        }),
      ),
    };
  }

  // About `most` lines, with the last one, and what was left out.
  function sampled(lines, most) {
    const nth = Math.ceil(lines.length / (most - 1));
    if (lines.length <= most) return { lines, note: "" };
    const kept = lines.filter((_, at) => at % nth === 0 || at === lines.length - 1);
    return { lines: kept, note: `1 in ${nth} of ${lines.length.toLocaleString("en-US")} rows` };
  }

  return { label, heatColumns, table, sampled };
})();
