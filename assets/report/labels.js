// The labels of marks and of points, none of which covers another or leaves the chart.
const chartLabels = (() => {
  const [SIZE, HEIGHT, GAP] = [11, 15, 8];
  // The room of a row of labels above a chart.
  const ROW = 16;
  const font = () => `${SIZE}px ${getComputedStyle(document.body).fontFamily}`;
  const pen = document.createElement("canvas").getContext("2d");

  function width(text) {
    pen.font = font();
    return pen.measureText(text).width;
  }

  // Puts labels, each with `middle` and `width`, side by side and near their middles. The last ones are left
  // out if there is no room for all.
  function inRow(labels, left, right) {
    const all = labels.reduce((sum, label) => sum + label.width + GAP, -GAP);
    if (labels.length > 0 && all > right - left) return inRow(labels.slice(0, -1), left, right);
    const placed = labels.map((label) => ({ ...label })).sort((a, b) => a.middle - b.middle);
    let end = left - GAP;
    for (const label of placed) {
      label.left = Math.max(end + GAP, label.middle - label.width / 2);
      end = label.left + label.width;
    }
    let start = right + GAP;
    for (const label of placed.slice().reverse()) {
      label.left = Math.min(label.left, start - GAP - label.width);
      start = label.left;
    }
    return placed;
  }

  const overlap = (a, b) => a.left < b.left + b.width && b.left < a.left + a.width && Math.abs(a.top - b.top) < HEIGHT;

  // Adds a label at the first of its `places` that is inside of the frame and free.
  function addFree(label, places, frame, placed) {
    const isInside = ({ left, top }) =>
      left >= frame.x && left + label.width <= frame.x + frame.width && top >= frame.y && top + HEIGHT <= frame.y + frame.height;
    const free = places
      .map(([left, top]) => ({ ...label, left, top }))
      .find((place) => isInside(place) && !placed.some((other) => overlap(place, other)));
    if (free) placed.push(free);
  }

  // The labels of the marks and the named points of a chart. `x` and `y` convert values to places.
  function layout(chart, frame, x, y, textOf, isHidden) {
    const [right, bottom] = [frame.x + frame.width, frame.y + frame.height];
    const known = chart.marks.map((mark) => ({ on: mark.on, at: mark.on === "x" ? x(mark.at) : y(mark.at), text: textOf(mark) }));
    const labels = known.map((label) => ({ ...label, middle: label.at, width: width(label.text) }));
    const above = labels.filter(({ on, at }) => on === "x" && at >= frame.x && at <= right);
    const placed = inRow(above, frame.x, right).map((label) => ({ ...label, top: frame.y - HEIGHT - 1 }));
    for (const label of labels.filter(({ on, at }) => on === "y" && at >= frame.y && at <= bottom)) {
      const [first, last] = [frame.x + 4, right - label.width - 4];
      const steps = Array.from({ length: Math.ceil(frame.height / HEIGHT) }, (_, step) => step * HEIGHT);
      const places = steps.flatMap((step) => [label.at - HEIGHT - 1 - step, label.at + 2 + step].flatMap((top) => [[last, top], [first, top]]));
      addFree(label, places, frame, placed);
    }
    for (const series of chart.series) {
      if (isHidden(series)) continue;
      for (const at of series.named || []) {
        const [px, py] = [x(series.points[at][0]), y(series.points[at][1])];
        const label = { text: series.labels[at], width: width(series.labels[at]) };
        const [left, centre, after] = [px - label.width - 6, px - label.width / 2, px + 6];
        const [over, beside, under] = [py - HEIGHT - 4, py - HEIGHT / 2, py + 5];
        const places = [[centre, over], [after, beside], [left, beside], [centre, under], [left, over], [after, over], [left, under], [after, under]];
        // A point can be in several series.
        if (!placed.some((other) => other.text === label.text && other.px === px && other.py === py))
          addFree({ ...label, px, py }, places, frame, placed);
      }
    }
    return placed.map(({ text, left, top }) => ({ text, left, top }));
  }

  // Shows the labels of the chart that `shown()` returns, and moves them when it is zoomed or series are hidden.
  function show(instance, shown, textOf) {
    const group = new echarts.graphic.Group({ silent: true });
    let before = "";
    const place = () => {
      const frame = instance.getModel().getComponent("grid").coordinateSystem.getRect();
      const convert = (axis) => (value) => instance.convertToPixel({ [`${axis}AxisIndex`]: 0 }, value);
      const isHidden = ({ name }) => (instance.getOption().legend[0].selected || {})[name] === false;
      const chart = shown();
      const labels = layout(chart, frame, convert("x"), convert("y"), textOf(chart), isHidden);
      const now = JSON.stringify(labels);
      if (now === before) return;
      before = now;
      group.removeAll();
      for (const { text, left, top } of labels) {
        const style = { text, x: left, y: top + 2, font: font(), fill: css("--faint"), stroke: css("--panel"), lineWidth: 3 };
        group.add(new echarts.graphic.Text({ silent: true, z: 100, style }));
      }
    };
    instance.getZr().add(group);
    instance.on("rendered", place);
    place();
  }

  return { ROW, HEIGHT, inRow, layout, show };
})();
