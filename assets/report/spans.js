// Bars over time, in rows.

// The height of a bar as a share of its row, and its opacity, as in pictures of `aiperf plot`.
const SPAN = { height: 0.36, opacity: 0.75 };

// The start, the end and y of each bar of a series.
const spansOf = ({ points }) =>
  points.flatMap(([start, y], at) => (at % 2 === 0 && at + 1 < points.length ? [[start, points[at + 1][0], y]] : []));

// Puts the bars of a chart on its axes, and keeps them there when these are zoomed or series are hidden. They are one
// picture: thousands of shapes would make the page slow, and bars of one line would not show how many they are.
function showSpans(instance, chart, tints) {
  const image = new echarts.graphic.Image({ silent: true, z: 1, style: {} });
  let shown = "";
  const place = () => {
    const { x: left, y: top, width, height } = instance.getModel().getComponent("grid").coordinateSystem.getRect();
    const origin = instance.convertToPixel("grid", [0, 0]);
    const unit = instance.convertToPixel("grid", [1, 1]);
    const hidden = chart.series.map(({ name }) => (instance.getOption().legend[0].selected || {})[name] === false);
    const now = JSON.stringify([left, top, width, height, origin, unit, hidden]);
    if (now === shown) return;
    shown = now;
    const ratio = instance.getDevicePixelRatio();
    const picture = element("canvas", { width: Math.ceil(width * ratio), height: Math.ceil(height * ratio) });
    const pen = picture.getContext("2d");
    pen.scale(ratio, ratio);
    pen.translate(-left, -top);
    pen.globalAlpha = SPAN.opacity;
    const [x, y] = [0, 1].map((axis) => (value) => origin[axis] + value * (unit[axis] - origin[axis]));
    chart.series.forEach((series, at) => {
      if (hidden[at]) return;
      pen.fillStyle = tints[at];
      for (const [start, end, middle] of spansOf(series)) {
        const [low, high] = [y(middle - SPAN.height / 2), y(middle + SPAN.height / 2)];
        pen.fillRect(x(start), high, Math.max(x(end) - x(start), 0.5), low - high);
      }
    });
    image.setStyle({ image: picture, x: left, y: top, width, height });
  };
  instance.getZr().add(image);
  instance.on("rendered", place);
  place();
}

// A series of bars: invisible points, for the axes, the legend and the cursor.
const spanSeries = (series, common) => ({ ...common, type: "scatter", symbolSize: 0, silent: true, legendHoverLink: false });

// How many bars of each series there are at a time.
function spansTooltip(chart, [item]) {
  const box = element("div", { className: "tip" });
  if (!item) return box;
  const at = item.value[0];
  box.append(element("div", { textContent: `${chart.x.title}: ${short(at)} ${chart.x.unit}` }));
  for (const series of chart.series) {
    const count = spansOf(series).filter(([start, end]) => start <= at && at <= end).length;
    if (count > 0) box.append(element("div", { textContent: `${series.name}: ${count}` }));
  }
  return box;
}

// The lines of a table: start, end, row and series of each bar, in order of start.
function spanTable(chart) {
  const { title, unit } = chart.x;
  const [start, end] = ["start", "end"].map((name) => axisTitle({ title: `${title}: ${name}`, unit }));
  const all = chart.series.flatMap((series) => spansOf(series).map((span) => [...span, series.name]));
  all.sort((a, b) => a[0] - b[0] || a[2] - b[2]);
  const lines = all.map(([from, to, y, name]) => [short(from), short(to), String(Math.floor(y)), name]);
  return { columns: [start, end, axisTitle(chart.y), "Series"], lines };
}
