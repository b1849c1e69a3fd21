// The dialog with the phases of a request and the arrivals of its content.
const requestDialog = (requests, axisOption) => {
  const dialog = element("dialog");
  const close = element("button", { textContent: "Close", className: "close" });
  close.addEventListener("click", () => dialog.close());
  let phasesChart = null;
  dialog.addEventListener("close", () => phasesChart && phasesChart.dispose());

  function open(at) {
    const [id, start, duration, failure, phases, arrivals, facts] = requests.rows[at];
    const list = element("dl");
    const rows = [["Start", `${start} s`], ["Duration", `${duration} ms`], ["Outcome", failure || "successful"], ...facts];
    for (const [name, value] of rows)
      list.append(element("dt", { textContent: name }), element("dd", { textContent: String(value) }));
    const place = element("div", { className: "phases" });
    dialog.replaceChildren(close, element("h2", { textContent: `Request ${id}` }), list, place);
    dialog.showModal();
    const names = requests.phases;
    place.setAttribute("role", "img");
    const known = names.flatMap((name, at) => (phases[at] === null ? [] : [`${name} ${short(phases[at])} ms`]));
    place.setAttribute("aria-label", `${known.join(", ")}; ${arrivals.length} arrivals of content`);
    let from = 0;
    const offsets = [];
    const lengths = [];
    phases.forEach((length) => {
      offsets.push(from);
      lengths.push(length || 0);
      from += length || 0;
    });
    const categories = [...names, "tokens"];
    phasesChart = echarts.init(place);
    phasesChart.setOption({
      animation: false,
      grid: { left: 110, right: 20, top: 10, bottom: 44 },
      tooltip: {
        confine: true,
        backgroundColor: css("--panel"),
        borderColor: css("--line"),
        textStyle: { color: css("--text"), fontSize: 12 },
        formatter: (item) => {
          const text = item.seriesType === "scatter" ? `content at ${short(item.value[0])} ms` : `${item.name}: ${short(item.value)} ms`;
          return element("div", { textContent: text });
        },
      },
      xAxis: axisOption({ title: "Time since the start of the request", unit: "ms" }, 28),
      yAxis: {
        type: "category",
        data: categories,
        inverse: true,
        axisLabel: { color: css("--text") },
        axisLine: { lineStyle: { color: css("--line") } },
      },
      series: [
        { type: "bar", stack: "a", silent: true, itemStyle: { color: "transparent" }, data: offsets },
        { type: "bar", stack: "a", barMinHeight: 1, itemStyle: { color: css("--series-0") }, data: lengths },
        {
          type: "scatter",
          symbol: "rect",
          symbolSize: [1, 14],
          itemStyle: { color: css("--series-1") },
          data: arrivals.map((time) => [time, "tokens"]),
        },
      ],
    });
  }

  return { dialog, open };
};
