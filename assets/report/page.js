// Draws the document in the element "data". It knows charts, tables and requests, but no metric.
// All text of the document is set as text, never as HTML.
// The other scripts beside this one come before it.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const main = document.querySelector("main");
  const preferred = matchMedia("(prefers-color-scheme: dark)");
  let theme = preferred.matches ? "dark" : "light";
  let isPrinting = false;
  const drawn = [];
  // The selected time, from the fragment of the address, or null.
  let selected = null;
  // What is filled again when the selection changes.
  const depending = [];
  // The most rows of the table of a chart, on the screen and on paper.
  const MAX_ROWS = [400, 25];
  // The space above a chart.
  const TOP = 34;


  // An interval in words. An end that is null is infinite.
  function intervalText(interval, format) {
    if (!interval || (interval[0] === null && interval[1] === null)) return "";
    const [low, high] = interval;
    if (high === null) return ` (${format(low)} or more)`;
    if (low === null) return ` (${format(high)} or less)`;
    return ` (${format(low)} to ${format(high)})`;
  }

  // The values on an axis, 0 for x and 1 for y: those of points and of marks.
  function valuesOn(chart, at) {
    const points = chart.series.flatMap((series) => series.points.filter((point) => point[1] !== null));
    const marked = chart.marks.filter((mark) => mark.on === "xy"[at]);
    return [...points.map((point) => point[at]), ...marked.map((mark) => mark.at)];
  }

  // The ends between which intervals are drawn, as in pictures.
  function endsOn(chart, at) {
    const values = valuesOn(chart, at);
    const least = values.reduce((a, b) => Math.min(a, b), 0);
    return [least, 2 * values.reduce((a, b) => Math.max(a, b), least)];
  }

  const within = ([low, high], [least, most]) => [
    low === null ? least : Math.max(low, least),
    high === null ? most : Math.min(high, most),
  ];

  // The whole axis of all timelines.
  const timelines = data.sections.flatMap((part) => part.charts).filter((chart) => chart.is_timeline);
  let lastTime = 0;
  for (const chart of timelines)
    for (const series of chart.series)
      for (const point of series.points) lastTime = Math.max(lastTime, point[0]);

  const canSelect = timelines.length > 0 && data.requests.rows.length > 0;

  const isScatter = (chart) => chart.series.every((series) => series.shape === "points");

  const isStack = (chart) => chart.series.every((series) => series.shape === "stack");

  const isSpans = (chart) => chart.series.some((series) => series.shape === "spans");

  // The heights of the columns of a series on those below it, with the end of the last column.
  function stacked(chart, at) {
    const points = chart.series[at].points.map(([x], row) => {
      const values = chart.series.slice(0, at + 1).map((series) => series.points[row][1]);
      return [x, values.every((value) => value === null) ? null : values.reduce((sum, value) => sum + (value || 0), 0)];
    });
    const [last, before] = [points[points.length - 1], points[points.length - 2]];
    const end = before ? 2 * last[0] - before[0] : last ? last[0] + 1 : 0;
    if (last) points.push([chart.is_timeline ? lastTime : end, last[1]]);
    return points;
  }

  // The values of all series at a column, and their sum.
  function stackTooltip(chart, found) {
    const box = element("div", { className: "tip" });
    const items = Array.isArray(found) ? found : [found];
    if (items.length === 0) return box;
    const at = Math.min(items[0].dataIndex, chart.series[0].points.length - 1);
    const labels = chart.series[0].labels;
    const x = chart.series[0].points[at][0];
    box.append(element("div", { textContent: labels ? labels[at] : `${chart.x.title}: ${short(x)} ${chart.x.unit}` }));
    let total = 0;
    for (const series of chart.series) {
      const value = series.points[at][1];
      if (value === null) continue;
      total += value;
      box.append(element("div", { textContent: `${series.name}: ${short(value)} ${chart.y.unit}` }));
    }
    box.append(element("div", { textContent: `Sum: ${short(total)} ${chart.y.unit}` }));
    return box;
  }

  function tooltip(chart, found) {
    if (isStack(chart)) return stackTooltip(chart, found);
    if (chart.series[0].heat) return heatTooltip(chart, [found].flat());
    if (isSpans(chart)) return spansTooltip(chart, [found].flat());
    // After the series of the chart come those that draw intervals.
    const isPoint = (item) => item.seriesIndex < chart.series.length && item.value && item.value[1] !== null;
    const items = (Array.isArray(found) ? found : [found]).filter(isPoint);
    const box = element("div", { className: "tip" });
    if (items.length === 0) return box;
    const first = items[0].value[0];
    if (!isScatter(chart)) box.append(element("div", { textContent: `${chart.x.title}: ${short(first)} ${chart.x.unit}` }));
    for (const item of items) {
      const series = chart.series[item.seriesIndex];
      const label = series.labels ? `${series.labels[item.dataIndex]}: ` : "";
      const x = isScatter(chart) ? `${short(item.value[0])} ${chart.x.unit}, ` : "";
      const at = !isScatter(chart) && item.value[0] !== first ? ` at ${short(item.value[0])} ${chart.x.unit}` : "";
      const interval = series.intervals ? intervalText(series.intervals[item.dataIndex], short) : "";
      const y = `${short(item.value[1])}${interval} ${chart.y.unit}`;
      box.append(element("div", { textContent: `${series.name}: ${label}${x}${y}${at}` }));
    }
    return box;
  }

  function colour(series, at) {
    if (series.tone === "bad") return css("--bad");
    if (series.tone === "faint") return css("--line");
    return css(`--series-${at % 9}`);
  }

  function seriesOption(chart, series, at) {
    const tint = colour(series, at);
    const common = {
      name: series.name,
      data: series.points,
      itemStyle: { color: tint },
      animation: false,
    };
    if (series.shape === "points") {
      const size = series.points.length > 2000 ? 4 : 7;
      // Above the points of lines.
      const z = isScatter(chart) ? 2 : 4;
      return { ...common, type: "scatter", symbolSize: size, itemStyle: { color: tint, opacity: 0.7 }, z };
    }
    if (series.shape === "heat") return heatSeries(series, common);
    if (series.shape === "spans") return spanSeries(series, common);
    if (series.shape === "stack") {
      if (!chart.is_timeline) return { ...common, type: "bar", stack: "all", data: series.points.map(([, y]) => y) };
      return {
        ...common,
        type: "line",
        step: "end",
        data: stacked(chart, at),
        lineStyle: { width: 0 },
        areaStyle: { color: tint, opacity: 1 },
        showSymbol: false,
        // A column hides the parts of the next ones that are behind it.
        z: 2 + chart.series.length - at,
      };
    }
    const isFew = series.points.length < 60;
    return {
      ...common,
      type: "line",
      lineStyle: { color: tint, width: 1.5 },
      step: series.shape === "line" ? false : "end",
      areaStyle: series.shape === "area" ? { color: tint, opacity: 0.35 } : undefined,
      showSymbol: (isFew && series.shape === "line") || series.points.length === 1,
      symbolSize: 5,
    };
  }

  // The area of the selected time in a chart over time.
  const selectionOption = (range) => ({
    id: "selection",
    type: "line",
    data: [],
    silent: true,
    animation: false,
    markArea: {
      silent: true,
      animation: false,
      itemStyle: { color: css("--text"), opacity: 0.12 },
      data: range ? [[{ xAxis: range.from }, { xAxis: range.to }]] : [],
    },
  });

  // The series that draw the intervals of a series: lines with an end on both sides, or an area on
  // an invisible line. They have its name, so that the legend switches them with it.
  function intervalOptions(chart, series, at) {
    const tint = colour(series, at);
    const common = { name: series.name, type: "line", silent: true, animation: false, itemStyle: { color: tint }, z: 1 };
    const bars = (data, symbolSize) => ({
      ...common,
      data,
      symbol: "rect",
      symbolSize,
      lineStyle: { color: tint, width: 1.5 },
    });
    const area = (data, areaStyle) => ({
      ...common,
      data,
      areaStyle,
      stack: `intervals of ${at}`,
      stackStrategy: "all",
      symbol: "none",
      step: series.shape === "line" ? false : "end",
      lineStyle: { width: 0 },
    });
    const options = [];
    const known = (intervals, axis) =>
      series.points.flatMap((point, row) =>
        point[1] !== null && intervals[row] ? [[point, within(intervals[row], endsOn(chart, axis))]] : [],
      );
    if (series.x_intervals) {
      const lines = known(series.x_intervals, 0).flatMap(([[, y], [low, high]]) => [[low, y], [high, y], [high, null]]);
      options.push(bars(lines, [1.5, 8]));
    }
    if (series.intervals && series.spread === "bars") {
      const lines = known(series.intervals, 1).flatMap(([[x], [low, high]]) => [[x, low], [x, high], [x, null]]);
      options.push(bars(lines, [8, 1.5]));
    }
    if (series.intervals && series.spread === "band") {
      const ends = endsOn(chart, 1);
      const rows = series.points.map(([x, y], row) => {
        const interval = y === null ? null : series.intervals[row];
        return [x, interval ? within(interval, ends) : [null, null]];
      });
      options.push(area(rows.map(([x, [low]]) => [x, low])));
      const heights = rows.map(([x, [low, high]]) => [x, low === null ? null : high - low]);
      options.push(area(heights, { color: tint, opacity: 0.22 }));
    }
    return options;
  }

  // The label of a mark of a chart.
  const markText = (chart) => (mark) =>
    `${mark.label} ${rounded(mark.at)}${intervalText(mark.interval, rounded)} ${chart[mark.on].unit}`.trim();

  // Lines at the marked values, areas where these can be, and invisible points by which the axes
  // reach them.
  function marked(chart) {
    const [x] = valuesOn(chart, 0);
    const [y] = valuesOn(chart, 1);
    const areas = chart.marks.filter((mark) => mark.interval).map((mark) => {
      const axis = `${mark.on}Axis`;
      const [low, high] = within(mark.interval, endsOn(chart, mark.on === "x" ? 0 : 1));
      return [{ [axis]: low }, { [axis]: high }];
    });
    return {
      type: "scatter",
      symbolSize: 0,
      silent: true,
      animation: false,
      data: chart.marks.map((mark) => (mark.on === "x" ? [mark.at, y] : [x, mark.at])),
      markLine: {
        silent: true,
        symbol: "none",
        animation: false,
        lineStyle: { color: css("--faint"), type: "dashed", width: 1 },
        label: { show: false },
        data: chart.marks.map((mark) => (mark.on === "x" ? { xAxis: mark.at } : { yAxis: mark.at })),
      },
      markArea: {
        silent: true,
        animation: false,
        itemStyle: { color: css("--faint"), opacity: 0.14 },
        data: areas,
      },
    };
  }

  // How an axis is divided: from zero, or else its title says so.
  function division(axis, values) {
    const least = values.reduce((a, b) => Math.min(a, b), Infinity);
    const most = values.reduce((a, b) => Math.max(a, b), -Infinity);
    // As in pictures.
    if (axis.start === "near" && least > 0 && least >= 0.7 * most) return { scale: true, remark: ", not from zero" };
    if (axis.start === "log" && least > 0)
      return { type: "log", logBase: most / least > 5000 ? 10 : 2, remark: ", logarithmic" };
    if (axis.start === "rows") return { min: 0, max: Math.max(1, Math.ceil(most)), minInterval: 1, remark: "" };
    return { remark: "" };
  }

  function axisOption(axis, gap, values = []) {
    const { remark, ...divided } = division(axis, values);
    return {
      type: "value",
      ...divided,
      name: axisTitle(axis) + remark,
      nameLocation: "middle",
      nameGap: gap,
      nameTextStyle: { color: css("--text") },
      axisLabel: { color: css("--faint"), hideOverlap: true },
      axisLine: { show: true, lineStyle: { color: css("--line") } },
      splitLine: { lineStyle: { color: css("--line"), opacity: 0.6 } },
    };
  }

  function chartOption(chart) {
    const series = chart.series.map((series, at) => seriesOption(chart, series, at));
    series.push(...chart.series.flatMap((series, at) => intervalOptions(chart, series, at)));
    if (chart.marks.length > 0 && chart.series.length > 0) series.push(marked(chart));
    if (chart.is_timeline) series.push(selectionOption(selected));
    const scatter = isScatter(chart);
    let x = axisOption(chart.x, 28, valuesOn(chart, 0));
    let y = axisOption(chart.y, 58, valuesOn(chart, 1));
    if (chart.is_timeline) {
      Object.assign(x, { min: 0, max: lastTime || 1 });
      // The end of the run is not a round number.
      x.axisLabel.showMaxLabel = false;
      heatAxis(chart, y);
    } else if (isStack(chart)) {
      // Each bar is named, so they are horizontal.
      x = axisOption(chart.y, 28);
      y = {
        type: "category",
        inverse: true,
        data: chart.series[0].labels,
        axisLabel: { color: css("--text"), width: 170, overflow: "truncate", interval: 0, fontSize: 10 },
        axisLine: { lineStyle: { color: css("--line") } },
      };
    }
    return {
      animation: false,
      backgroundColor: css("--panel"),
      textStyle: { fontFamily: "inherit" },
      grid: {
        left: isStack(chart) && !chart.is_timeline ? 184 : 78,
        right: 18,
        top: chart.marks.some((mark) => mark.on === "x") ? TOP + chartLabels.ROW : TOP,
        bottom: 48,
      },
      legend: {
        show: !chart.series.some((one) => one.heat),
        type: "scroll",
        top: 4,
        left: 60,
        right: 18,
        textStyle: { color: css("--text") },
        pageTextStyle: { color: css("--text") },
      },
      // Its buttons are those of the figure; it only zooms.
      // The time is zoomed in all charts over time, which have values of their own.
      toolbox: { top: -100, feature: { dataZoom: { filterMode: "none", yAxisIndex: chart.is_timeline ? "none" : undefined } } },
      tooltip: {
        trigger: scatter ? "item" : "axis",
        confine: true,
        transitionDuration: 0,
        backgroundColor: css("--panel"),
        borderColor: css("--line"),
        textStyle: { color: css("--text"), fontSize: 12 },
        axisPointer: { type: scatter ? "none" : isStack(chart) && !chart.is_timeline ? "shadow" : "line", snap: true },
        formatter: (found) => tooltip(chart, found),
      },
      xAxis: x,
      yAxis: y,
      series,
    };
  }

  function draw(entry) {
    if (entry.instance) return;
    entry.shown = timeSelection.of(entry.chart, data.requests, selected);
    // Paper has a higher resolution than the screen.
    entry.instance = echarts.init(entry.place, null, isPrinting ? { devicePixelRatio: 3 } : {});
    entry.instance.setOption(chartOption(entry.shown));
    chartLabels.show(entry.instance, () => entry.shown, markText);
    entry.chart.series.forEach((one, at) => one.heat && showHeat(entry.instance, one.heat, colour(one, at)));
    if (isSpans(entry.chart)) showSpans(entry.instance, entry.chart, entry.chart.series.map(colour));
    entry.setZooming(false);
    if (entry.chart.is_timeline) {
      if (!isScatter(entry.chart)) {
        entry.instance.group = "time";
        echarts.connect("time");
      }
      if (canSelect) selectByDragging(entry.instance, lastTime, {
        isActive: () => !entry.isZooming,
        show: (range) => entry.instance.setOption({ series: [selectionOption(range || selected)] }),
        select,
      });
    }
    entry.instance.on("click", (event) => {
      const series = entry.shown.series[event.seriesIndex];
      if (series && series.requests) openRequest(series.requests[event.dataIndex]);
    });
  }

  function redraw(entries) {
    for (const entry of entries) {
      if (!entry.instance) continue;
      entry.instance.dispose();
      entry.instance = null;
      draw(entry);
    }
  }

  // Puts a selection, or none, in the address.
  function select(range) {
    const fragment = timeSelection.fragment(range, null);
    history.pushState(null, "", fragment || location.href.split("#")[0]);
    showSelection();
  }

  // Shows what the address selects.
  function showSelection() {
    selected = canSelect ? timeSelection.parse(location.hash, lastTime) : null;
    for (const entry of drawn) {
      if (entry.chart.is_timeline) {
        if (entry.instance) entry.instance.setOption({ series: [selectionOption(selected)] });
        continue;
      }
      const shown = timeSelection.of(entry.chart, data.requests, selected);
      if (shown === entry.shown || (shown === entry.chart && !entry.shown)) continue;
      entry.shown = shown;
      if (entry.instance) entry.instance.setOption(chartOption(shown), { notMerge: true });
      entry.describe(shown);
    }
    depending.forEach((fill) => fill());
    const section = document.getElementById(timeSelection.section(location.hash) || "");
    if (section) section.scrollIntoView();
  }

  const nearby = new IntersectionObserver(
    (changes) => {
      for (const change of changes)
        if (change.isIntersecting) {
          draw(drawn.find((entry) => entry.place === change.target));
          nearby.unobserve(change.target);
        }
    },
    { rootMargin: "400px" },
  );

  // The time is zoomed in all charts over time.
  const showAll = (entry) =>
    redraw(drawn.filter((other) => other === entry || (entry.chart.is_timeline && other.chart.is_timeline)));

  function figureClass(chart) {
    if (isSpans(chart) || (isStack(chart) && !chart.is_timeline)) return "wide high";
    return chart.is_timeline ? "wide" : "";
  }

  function chartElement(chart) {
    const place = element("div", { className: "plot" });
    place.setAttribute("role", "img");
    place.dataset.name = chart.name;
    const entry = { place, chart, shown: chart, instance: null };
    const note = element("p", { className: "note" });
    entry.describe = (shown) => {
      place.setAttribute("aria-label", `${chart.title}. ${chartText.label(shown)}`);
      note.textContent = shown.note ? `${shown.note}.` : "";
    };
    entry.describe(chart);
    drawn.push(entry);
    nearby.observe(place);
    const figure = element("figure", { className: figureClass(chart) });
    figure.append(element("figcaption", {}, element("h3", { textContent: chart.title }), chartTools(entry, draw, showAll)));
    figure.append(place);
    if (chart.note) figure.append(note);
    const current = () => timeSelection.of(chart, data.requests, selected);
    figure.append(chartTable(entry, current, () => MAX_ROWS[Number(isPrinting)]));
    depending.push(entry.fillTable);
    return figure;
  }

  const { dialog, open: openRequest } = requestDialog(data.requests, axisOption);

  function tableElement(table) {
    const body = element("tbody");
    const rows = table.rows.map((cells, at) => ({ cells, request: table.requests[at] }));
    const isNumeric = table.columns.map((_, at) => rows.every(({ cells }) => cells[at] === null || isNumber(cells[at])));
    let query = "";
    const fill = () => {
      const matches = ({ cells }) => cells.some((cell) => String(cell).toLowerCase().includes(query));
      const isSelected = ({ request }) => request === undefined || timeSelection.has(selected, data.requests.rows[request]);
      const found = rows.filter((row) => isSelected(row) && (query === "" || matches(row)));
      about.textContent = selected && rows.some((row) => row.request !== undefined) ? `${found.length} of ${rows.length} rows started in the selected time` : "";
      body.replaceChildren(
        ...found.map(({ cells, request }) => {
          const line = element("tr");
          cells.forEach((cell, at) => {
            const shown = element(at === 0 ? "th" : "td", { className: isNumeric[at] ? "number" : "text" });
            if (at === 0) shown.scope = "row";
            if (at === 0 && request !== undefined) {
              const open = element("button", { type: "button", textContent: short(cell) });
              open.setAttribute("aria-label", `${table.columns[0]} ${short(cell)}: show the request`);
              shown.append(open);
            } else shown.textContent = short(cell);
            if (isNumber(cell)) shown.title = String(cell);
            line.append(shown);
          });
          if (request !== undefined) {
            line.className = "opens";
            line.addEventListener("click", () => openRequest(request));
          }
          return line;
        }),
      );
    };
    const head = element("tr");
    const about = element("p", { className: "note" });
    let sorted = null;
    table.columns.forEach((name, at) => {
      const button = element("button", { type: "button", textContent: name });
      const cell = element("th", { className: isNumeric[at] ? "number" : "", scope: "col" }, name ? button : "");
      button.addEventListener("click", () => {
        const isDown = sorted === at;
        sorted = isDown ? null : at;
        for (const other of head.children) other.removeAttribute("aria-sort");
        cell.setAttribute("aria-sort", isDown ? "descending" : "ascending");
        const order = (a, b) => (isNumeric[at] ? a - b : String(a).localeCompare(String(b)));
        rows.sort((a, b) => {
          const [left, right] = [a.cells[at], b.cells[at]];
          if (left === null || right === null) return (left === null) - (right === null);
          return isDown ? order(right, left) : order(left, right);
        });
        fill();
      });
      head.append(cell);
    });
    fill();
    depending.push(fill);
    const parts = [element("h3", { textContent: table.title }), about];
    if (table.note) parts.push(element("p", { className: "note", textContent: table.note }));
    if (rows.length > 8) {
      const search = element("input", { type: "search", placeholder: "Search" });
      search.setAttribute("aria-label", `Search ${table.title}`);
      search.addEventListener("input", () => {
        query = search.value.toLowerCase();
        fill();
      });
      parts.push(search);
    }
    const caption = element("caption", { className: "hidden", textContent: table.title });
    const box = element("div", { className: "scroll", tabIndex: 0 }, element("table", {}, caption, element("thead", {}, head), body));
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", table.title);
    parts.push(box);
    return element("div", { className: "table" }, ...parts);
  }

  // What was found, in one box: the answer, and what else to know.
  function answerElement([answer, ...others]) {
    const box = element("div", { className: `answer ${answer.level}` }, element("p", { textContent: answer.text }));
    const item = ({ level, text }) => element("li", { className: level, textContent: text });
    if (others.length > 0) box.append(element("ul", {}, ...others.map(item)));
    return box;
  }

  function render() {
    document.title = data.title;
    const toggle = element("button", { className: "theme", textContent: "Light or dark" });
    toggle.addEventListener("click", () => setTheme(theme === "dark" ? "light" : "dark"));
    const links = data.sections.map((part) => element("a", { textContent: part.title }));
    const skip = element("a", { href: "#content", className: "skip", textContent: "Skip to the content" });
    const heading = element("h1", { id: "content", tabIndex: -1, textContent: data.title });
    skip.addEventListener("click", (event) => {
      // The fragment is that of the selection.
      event.preventDefault();
      heading.focus();
    });
    const nav = element("nav", {}, ...links, toggle);
    nav.setAttribute("aria-label", "Sections");
    depending.push(() => links.forEach((link) => (link.href = timeSelection.fragment(selected, link.textContent))));
    main.append(skip, nav);
    if (canSelect) {
      const { form, show } = timeFields(data.requests, lastTime, select);
      depending.push(() => show(selected));
      addEventListener("keydown", (event) => {
        if (event.key === "Escape" && selected && !dialog.open) select(null);
      });
      main.append(form);
    }
    main.append(heading);
    if (data.notices.length > 0) main.append(answerElement(data.notices));
    const figures = data.figures.map(({ title, value, unit, detail }) =>
      element(
        "div",
        { className: "figure" },
        element("div", { className: "note", textContent: title }),
        element(
          "div",
          { className: "value", title: String(value) },
          element("b", { textContent: rounded(value) }),
          element("span", { textContent: ` ${unit}` }),
        ),
        element("div", { className: "note", textContent: detail }),
      ),
    );
    if (figures.length > 0) main.append(element("div", { className: "figures" }, ...figures));
    const facts = element("dl", { className: "facts" });
    for (const [name, value] of data.facts)
      facts.append(element("dt", { textContent: name }), element("dd", { textContent: value }));
    if (data.facts.length > 0) main.append(facts);
    for (const part of data.sections) {
      const section = element("section", { id: part.title }, element("h2", { textContent: part.title }));
      if (part.text) section.append(element("p", { textContent: part.text }));
      section.append(element("div", { className: "charts" }, ...part.charts.map(chartElement)));
      section.append(...part.tables.map(tableElement));
      main.append(section);
    }
    main.append(dialog);
  }

  function setTheme(name) {
    theme = name;
    document.documentElement.dataset.theme = name;
    redraw(drawn);
  }

  document.documentElement.dataset.theme = theme;
  render();
  showSelection();
  addEventListener("popstate", showSelection);
  preferred.addEventListener("change", () => setTheme(preferred.matches ? "dark" : "light"));
  addEventListener("resize", () => drawn.forEach((entry) => entry.instance && entry.instance.resize()));
  let before = theme;
  function setPrinting(prints) {
    isPrinting = prints;
    document.documentElement.classList.toggle("printing", prints);
  }

  addEventListener("beforeprint", () => {
    before = theme;
    setPrinting(true);
    setTheme("light");
    for (const entry of drawn) {
      draw(entry);
      entry.wasOpen = entry.details.open;
      entry.details.open = true;
      entry.fillTable();
    }
  });
  addEventListener("afterprint", () => {
    setPrinting(false);
    setTheme(before);
    for (const entry of drawn) {
      entry.details.open = entry.wasOpen;
      entry.fillTable();
    }
  });
})();
