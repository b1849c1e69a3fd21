// The selected time. It is kept in the fragment of the address only: "#from=3.2&to=7.9". A request
// belongs to it if it started in it.
const timeSelection = (() => {
  // The selection of a fragment, or null. A missing end is that of the run.
  function parse(fragment, end) {
    const given = new URLSearchParams(fragment.replace(/^#/, ""));
    if (!given.has("from") && !given.has("to")) return null;
    const time = (name, otherwise) => (given.has(name) ? Number(given.get(name) || NaN) : otherwise);
    const from = Math.max(time("from", 0), 0);
    const to = Math.min(time("to", end), end);
    return from < to ? { from, to } : null;
  }

  // The section that a fragment asks to show beside the selection.
  const section = (fragment) => new URLSearchParams(fragment.replace(/^#/, "")).get("section");

  // The fragment of a selection and a section, of which either can be missing.
  function fragment(selected, title) {
    if (!selected) return title ? `#${encodeURIComponent(title)}` : "";
    const parts = { from: selected.from, to: selected.to };
    if (title) parts.section = title;
    return `#${new URLSearchParams(parts)}`;
  }

  // Rounds a time to what can be seen: a thousandth of the run.
  function toStep(time, end) {
    const step = 10 ** Math.floor(Math.log10(end / 1000));
    const digits = Math.max(0, Math.ceil(-Math.log10(step)));
    return Number((Math.round(time / step) * step).toFixed(digits));
  }

  const START = 1;
  const DURATION = 2;
  const FAILURE = 3;
  const MEASURES = 7;

  const has = (selected, row) => !selected || (row[START] >= selected.from && row[START] <= selected.to);

  // The percentile of sorted values, by linear interpolation.
  function percentile(sorted, percent) {
    if (sorted.length === 0) return null;
    const at = ((sorted.length - 1) * percent) / 100;
    const below = Math.floor(at);
    const above = Math.min(below + 1, sorted.length - 1);
    return sorted[below] + (sorted[above] - sorted[below]) * (at - below);
  }

  // The selected rows of which statistics can be computed.
  function rowsOf(requests, selected) {
    const rows = requests.every ? requests.every.rows.map((at) => requests.rows[at]) : requests.rows;
    return rows.filter((row) => has(selected, row));
  }

  // The sorted values of a measure, or the durations of failed requests.
  function valuesOf(rows, measure, ofFailed) {
    const failed = rows.filter((row) => row[FAILURE] !== null).map((row) => row[DURATION]);
    const values = ofFailed ? failed : rows.map((row) => row[MEASURES][measure]);
    return values.filter((value) => typeof value === "number").sort((a, b) => a - b);
  }

  function cumulative(values) {
    const last = values.length - 1;
    return values.map((value, at) => [value, last === 0 ? 100 : (at / last) * 100]);
  }

  // The number of values in each bin, whose starts and last end are given; the last one has its end too.
  // Values beyond it are not counted.
  function histogram(values, ends) {
    const counts = new Array(Math.max(ends.length - 1, 0)).fill(0);
    let bin = 0;
    for (const value of values) {
      while (bin < counts.length - 1 && value >= ends[bin + 1]) bin += 1;
      if (value <= ends[ends.length - 1]) counts[bin] += 1;
    }
    return [...counts, counts[counts.length - 1]].map((count, at) => [ends[at], count]);
  }

  // The distribution of a measure in the selected time, with its own percentiles.
  function distribution(chart, measure, rows) {
    const series = chart.series.map((one) => {
      const values = valuesOf(rows, measure, one.tone === "bad");
      const ends = one.points.map(([x]) => x);
      return { ...one, points: one.shape === "area" ? histogram(values, ends) : cumulative(values) };
    });
    const values = valuesOf(rows, measure, false);
    const marks = chart.marks.flatMap((mark) => {
      const at = percentile(values, Number(mark.label.slice(1)));
      return at === null ? [] : [{ ...mark, at }];
    });
    const failed = chart.series.some((one) => one.tone === "bad") ? valuesOf(rows, measure, true).length : 0;
    const note = `${values.length} of the selected requests${failed > 0 ? `, and ${failed} failed ones` : ""}`;
    return { ...chart, series, marks, note };
  }

  // The chart with the selected requests only, if it shows single requests or their distribution.
  function of(chart, requests, selected) {
    if (!selected || chart.is_timeline) return chart;
    const measure = requests.measures.findIndex((one) => one.charts.includes(chart.name));
    if (measure >= 0) return distribution(chart, measure, rowsOf(requests, selected));
    if (!chart.series.some((one) => one.requests)) return chart;
    const series = chart.series.map((one) => {
      if (!one.requests) return one;
      const kept = one.requests.map((at) => has(selected, requests.rows[at]));
      const pick = (list) => list && list.filter((_, at) => kept[at]);
      return { ...one, points: pick(one.points), requests: pick(one.requests), labels: pick(one.labels) };
    });
    return { ...chart, series };
  }

  // What was selected, in words.
  function summary(requests, selected) {
    const count = (number) => number.toLocaleString("en-US");
    const rows = rowsOf(requests, selected);
    const failed = rows.filter((row) => row[FAILURE] !== null).length;
    const all = requests.every
      ? `${count(requests.every.rows.length)} (1 in ${count(requests.every.nth)} of ${count(requests.count)})`
      : count(requests.rows.length);
    const parts = [`Selected ${selected.from}–${selected.to} s: ${count(rows.length)} of ${all} requests started`];
    if (failed > 0) parts.push(`${count(failed)} failed`);
    requests.measures.forEach(({ title, unit }, at) => {
      const values = valuesOf(rows, at, false);
      if (values.length === 0) return;
      const [p50, p99] = [50, 99].map((percent) => rounded(percentile(values, percent)));
      parts.push(`${title} p50 ${p50}, p99 ${p99} ${unit}`);
    });
    return parts.join("; ");
  }

  return { parse, section, fragment, rounded: toStep, has, percentile, histogram, of, summary };
})();
