//! The page of a run in a real browser.

use base::units::Nanos;
use mock_server::Script;
use serde_json::{Value, json};

use crate::report_page::data;
use crate::support::browser::Browser;
use crate::support::load::{mock, varied};
use crate::support::run::{Run, profile};

/// Shows each chart, which draws it.
const DRAW_ALL: &str = "(async () => {
  for (const plot of document.querySelectorAll('.plot')) {
    plot.scrollIntoView();
    while (!plot.querySelector('canvas')) await new Promise((done) => setTimeout(done, 10));
  }
  return document.querySelectorAll('.plot').length;
})()";

/// The number of rows of a table that refer to requests.
const SHOWN_ROWS: &str = "document.querySelectorAll('.table tr.opens').length";

const SUMMARY: &str = "document.querySelector('.selection output').textContent";

fn run() -> Run {
    let server = mock(varied());
    let flags = ["--concurrency", "4", "--request-count", "160", "--html"];
    profile(&server.url(), &flags).succeeded()
}

/// Returns the starts and the times to first token of the requests that the page shows.
fn requests(data: &Value) -> Vec<(f64, Option<f64>)> {
    let rows = data["requests"]["rows"].as_array().unwrap().iter();
    rows.map(|row| (row[1].as_f64().unwrap(), row[7][0].as_f64())).collect()
}

fn percentile(values: &mut [f64], percent: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len() - 1) as f64 * percent / 100.0;
    let (below, share) = (at.floor() as usize, at.fract());
    let above = (below + 1).min(values.len() - 1);
    values[below] + (values[above] - values[below]) * share
}

/// Returns the number after `text` in `words`.
fn number_after(words: &str, text: &str) -> f64 {
    let (_, rest) = words.split_once(text).unwrap_or_else(|| panic!("{text:?} in {words:?}"));
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    rest[..end].parse().unwrap()
}

#[test]
fn a_browser_shows_the_page_and_what_is_selected() {
    let run = run();
    let page = run.directory.path().join("report.html");
    let data = data(&run.text("report.html"));
    let requests = requests(&data);
    let Some(mut browser) = Browser::start(1280, 900) else { return };
    browser.open(&page, "");
    let charts = browser.value(DRAW_ALL).as_u64().unwrap();
    assert!(charts >= 15, "{charts} charts");
    let all_rows = browser.value(SHOWN_ROWS);

    // A link selects.
    let last = requests.last().unwrap().0;
    let (from, to) = ((last * 250.0).round() / 1e3, (last * 750.0).round() / 1e3);
    browser.open(&page, &format!("#from={from}&to={to}"));
    browser.value(DRAW_ALL);
    let selected: Vec<_> =
        requests.iter().filter(|(start, _)| (from..=to).contains(start)).collect();
    let words = browser.value(SUMMARY).as_str().unwrap().to_owned();
    assert!(words.starts_with(&format!("Selected {from}–{to} s: ")), "{words}");
    assert_eq!(number_after(&words, " s: "), selected.len() as f64, "{words}");
    assert_eq!(number_after(&words, " of "), 160.0, "{words}");
    let mut first: Vec<f64> = selected.iter().filter_map(|(_, ttft)| *ttft).collect();
    let p50 = percentile(&mut first, 50.0);
    let shown = number_after(&words, "Time to first token p50 ");
    assert!((shown / p50 - 1.0).abs() < 6e-3, "{shown} instead of {p50}: {words}");
    let p99 = percentile(&mut first, 99.0);
    let shown = number_after(&words, "p99 ");
    assert!((shown / p99 - 1.0).abs() < 6e-3, "{shown} instead of {p99}: {words}");
    let rows = browser.value(SHOWN_ROWS);
    assert!(rows.as_u64() < all_rows.as_u64() && rows.as_u64() > Some(0), "{rows} of {all_rows}");

    // Escape clears, and back restores it.
    browser.press("Escape");
    browser.wait("location.hash === ''");
    assert_eq!(browser.value(SHOWN_ROWS), all_rows);
    browser.value("history.back()");
    browser.wait("location.hash.startsWith('#from=')");
    browser.wait(&format!("{SHOWN_ROWS} === {rows}"));
    browser.value("document.querySelector('.selection button[type=button]').click()");
    assert_eq!(browser.value("location.hash"), "");

    // The fields select too, by the keyboard.
    browser.value("document.querySelector('.selection [name=from]').focus()");
    browser.value(&format!("document.activeElement.value = '{from}'"));
    browser.press("Enter");
    browser.wait(&format!("location.hash.startsWith('#from={from}&to=')"));
    browser.press("Escape");

    // So does dragging over a chart over time.
    let place = browser.value(
        "(() => {
           const plot = document.querySelector('[data-name=request_rate_over_time]');
           plot.scrollIntoView({ block: 'center' });
           const { left, top, width, height } = plot.getBoundingClientRect();
           return [left, top, width, height];
         })()",
    );
    let [left, top, width, height] = [0, 1, 2, 3].map(|at| place[at].as_f64().unwrap());
    let y = top + height / 2.0;
    browser.drag((left + width * 0.4, y), (left + width * 0.6, y));
    browser.wait("/^#from=[0-9.]+&to=[0-9.]+$/.test(location.hash)");
    // The axis is 78 pixels from the left and 18 from the right, and ends with the run.
    let hash = browser.value("location.hash").as_str().unwrap().to_owned();
    let end = browser.value(
        "echarts.getInstanceByDom(document.querySelector('[data-name=request_rate_over_time]'))
           .getOption().xAxis[0].max",
    );
    let end = end.as_f64().unwrap();
    let time = |share: f64| (width * share - 78.0) / (width - 96.0) * end;
    for (found, expected) in
        [(number_after(&hash, "from="), time(0.4)), (number_after(&hash, "to="), time(0.6))]
    {
        assert!((found - expected).abs() < end / 100.0, "{found} instead of {expected}: {hash}");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// The labels of marks of a chart, with their left, top, right and bottom in its picture; and its size.
const LABELS: &str = "((name) => {
  const chart = echarts.getInstanceByDom(document.querySelector(`[data-name=${name}]`));
  const found = [];
  chart.getZr().storage.getDisplayList(true).forEach((it) => {
    if (!/^p[0-9]/.test(it.style.text || '') || it.ignore) return;
    const { x, y, width, height } = it.getBoundingRect().clone();
    const [dx, dy] = it.transform ? [it.transform[4], it.transform[5]] : [0, 0];
    found.push([it.style.text, x + dx, y + dy, x + dx + width, y + dy + height]);
  });
  return { found, width: chart.getWidth(), height: chart.getHeight() };
})";

/// All requests take nearly the same time, so that the percentiles are close to each other.
#[test]
fn labels_of_close_percentiles_do_not_cover_each_other_and_tables_are_whole() {
    let server = mock(Script { ttft: Nanos::from_millis(50.0), ..Script::default() });
    let flags = ["--concurrency", "2", "--request-count", "60", "--html"];
    let run = profile(&server.url(), &flags).succeeded();
    let Some(mut browser) = Browser::start(1280, 900) else { return };
    browser.open(&run.directory.path().join("report.html"), "");
    browser.value(DRAW_ALL);
    for name in ["time_to_first_token_cdf", "request_latency_cdf", "request_latency_histogram"] {
        let shown = browser.value(&format!("{LABELS}('{name}')"));
        let size = ["width", "height"].map(|side| shown[side].as_f64().unwrap());
        let rooms: Vec<(String, [f64; 4])> = shown["found"]
            .as_array()
            .unwrap()
            .iter()
            .map(|found| {
                let room = [1, 2, 3, 4].map(|at| found[at].as_f64().unwrap());
                (found[0].as_str().unwrap().to_owned(), room)
            })
            .collect();
        assert_eq!(rooms.len(), 4, "{name}: {shown}");
        for (at, (label, [left, top, right, bottom])) in rooms.iter().enumerate() {
            let is_inside = *left >= 0.0 && *top >= 0.0 && *right <= size[0] && *bottom <= size[1];
            assert!(is_inside, "{name}: {label} of {shown}");
            for (other, [from, above, to, below]) in &rooms[..at] {
                let overlap = left < to && from < right && top < below && above < bottom;
                assert!(!overlap, "{name}: {label} and {other}: {shown}");
            }
        }
    }
    // What does not fit is reached by scrolling within the table.
    let cut = browser.value(
        "[...document.querySelectorAll('.table .scroll')].filter((box) => {
           box.scrollLeft = 1e6;
           const [table, around] = [box.querySelector('table'), box.parentElement].map((it) => it.getBoundingClientRect());
           return around.right > innerWidth || table.right > around.right + 1;
         }).map((box) => box.getAttribute('aria-label'))",
    );
    assert_eq!(cut, json!([]));
    assert!(browser.value("document.documentElement.scrollWidth").as_u64() <= Some(1280));
    assert_eq!(browser.value("document.querySelectorAll('.answer').length"), 1);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_page_can_be_read_without_seeing_its_charts() {
    let run = run();
    let page = run.directory.path().join("report.html");
    let Some(mut browser) = Browser::start(1280, 900) else { return };
    browser.open(&page, "");
    let charts = browser.value(DRAW_ALL).as_u64().unwrap();
    let opened = browser.value(
        "(async () => {
           const figures = [...document.querySelectorAll('figure')];
           for (const figure of figures) figure.querySelector('details').open = true;
           await new Promise((done) => setTimeout(done, 50));
           return figures.filter((figure) =>
             figure.querySelector('details caption').textContent &&
             figure.querySelector('details thead th[scope=col]') &&
             figure.querySelector('details tbody th[scope=row]') &&
             figure.querySelector('[role=img]').getAttribute('aria-label').length > 40 &&
             figure.querySelectorAll('.tools button').length === 3).length;
         })()",
    );
    assert_eq!(opened, charts);
    let headings = browser.value("[...document.querySelectorAll('main :is(h1,h2,h3,h4)')].map((it) => Number(it.tagName[1]))");
    let levels: Vec<u64> = headings.as_array().unwrap().iter().filter_map(Value::as_u64).collect();
    assert_eq!(levels[0], 1);
    assert!(levels.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{levels:?}");
    // Everything that can be clicked has a name, and can be reached with the keyboard.
    let nameless = browser.value(
        "[...document.querySelectorAll('main :is(button, a, input, [role=region])')].filter((it) =>
           it.tabIndex < 0 || !(it.getAttribute('aria-label') || it.textContent || it.labels?.length)
         ).map((it) => it.outerHTML)",
    );
    assert_eq!(nameless, json!([]));
    // A column is sorted both ways.
    let sorted = browser.value(
        "(() => {
           const button = document.querySelector('.table thead button');
           return [0, 1].map(() => (button.click(), button.parentElement.getAttribute('aria-sort')));
         })()",
    );
    assert_eq!(sorted, json!(["ascending", "descending"]));
    // A request opens and closes.
    browser.value("document.querySelector('tr.opens button').click()");
    browser.wait("document.querySelector('dialog[open] canvas')");
    browser.press("Escape");
    browser.wait("!document.querySelector('dialog[open]')");
    // A narrow screen does not scroll sideways.
    browser.resize(390, 800);
    browser.wait("innerWidth === 390");
    browser.value(DRAW_ALL);
    let width = browser.value("document.documentElement.scrollWidth");
    assert!(width.as_u64() <= Some(390), "{width}");
    // On paper, each chart has a short table, and afterwards what was closed is closed.
    browser.value("for (const it of document.querySelectorAll('details')) it.open = false");
    let printed = browser.value(
        "(() => {
           dispatchEvent(new Event('beforeprint'));
           const tables = [...document.querySelectorAll('figure details[open] tbody')];
           const rows = tables.map((table) => table.rows.length);
           dispatchEvent(new Event('afterprint'));
           return [rows.length, Math.min(...rows), Math.max(...rows)];
         })()",
    );
    assert_eq!(printed[0], charts);
    assert!(printed[1].as_u64() >= Some(1) && printed[2].as_u64() <= Some(25), "{printed}");
    assert_eq!(browser.value("document.querySelectorAll('figure details[open]').length"), 0);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_selection_is_computed_as_by_hand() {
    let run = run();
    let page = run.directory.path().join("report.html");
    let Some(mut browser) = Browser::start(800, 600) else { return };
    browser.open(&page, "");
    let mut expect = |expression: &str, expected: Value| {
        assert_eq!(browser.value(expression), expected, "{expression}");
    };
    expect("timeSelection.parse('#from=3.2&to=7.9', 10)", json!({"from": 3.2, "to": 7.9}));
    expect("timeSelection.parse('#from=3', 10)", json!({"from": 3, "to": 10}));
    for fragment in ["", "#Latency", "#from=5&to=4", "#from=x&to=4", "#from=11&to=12", "#from=&to="]
    {
        expect(&format!("timeSelection.parse({}, 10)", json!(fragment)), Value::Null);
    }
    expect("timeSelection.rounded(1.23456, 12)", json!(1.23));
    expect("timeSelection.rounded(1234.5, 3600)", json!(1235));
    expect("timeSelection.percentile([1, 2, 4], 75)", json!(3));
    expect("timeSelection.percentile([], 50)", Value::Null);
    // 2 is in the second bin, 3 is the end of the last one, and 9 is beyond.
    let bins = json!([[1, 1], [2, 3], [3, 3]]);
    expect("timeSelection.histogram([1.5, 2, 2.5, 3, 9], [1, 2, 3])", bins);
    // Of a sample with the slowest requests, the regular part counts: 2 of 3 started from 1 to 3 s.
    let requests = "{ count: 75, every: { nth: 25, rows: [0, 1, 3] },
       measures: [{ title: 'TTFT', unit: 'ms', charts: ['t_cdf', 't_histogram'] }],
       rows: [['a', 0, 9, null, [], [], [], [9]], ['b', 1, 5, null, [], [], [], [5]],
              ['slow', 2, 900, null, [], [], [], [900]], ['d', 3, 7, '503', [], [], [], [null]]] }";
    expect(
        &format!("timeSelection.summary({requests}, {{ from: 1, to: 3 }})"),
        json!(
            "Selected 1–3 s: 2 of 3 (1 in 25 of 75) requests started; 1 failed; TTFT p50 5, p99 5 ms"
        ),
    );
    // All single requests are shown, however.
    let chart = "{ series: [{ points: [[1, 9], [2, 5], [3, 900]], requests: [0, 1, 2] }] }";
    expect(
        &format!("timeSelection.of({chart}, {requests}, {{ from: 1, to: 3 }}).series[0].points"),
        json!([[2, 5], [3, 900]]),
    );
    // Of 1, 2 and 1 gaps, half are reached in the second row.
    let heat = "{ columns: [0, 1, 2], rows: [1, 10, 100, 1000], cells: [[0, 0, 1], [0, 2, 1], [0, 1, 2]] }";
    expect(
        &format!("chartText.heatColumns({heat})"),
        json!([{"total": 4, "least": 1, "half": 100, "most": 1000}, null]),
    );
    let starts = |labels: &str| format!("chartLabels.inRow({labels}, 0, 300).map((it) => it.left)");
    // Apart by 8, at the right end, and without the one for which there is no room.
    for (labels, expected) in [
        ("[{middle: 100, width: 40}, {middle: 100, width: 40}]", json!([80, 128])),
        ("[290, 295, 300].map((middle) => ({middle, width: 40}))", json!([164, 212, 260])),
        ("[0, 9].map((middle) => ({middle, width: 200}))", json!([0])),
    ] {
        expect(&starts(labels), expected);
    }
    expect(
        "[0.449970338, 1231.3, 12, 99.96, -0.5, 1234567].map(short)",
        json!(["0.450", "1231", "12", "100", "-0.500", "1234567"]),
    );
    let lines = "chartText.sampled([1, 2, 3, 4, 5, 6, 7, 8].map((it) => [it]), 4)";
    expect(lines, json!({"lines": [[1], [4], [7], [8]], "note": "1 in 3 of 8 rows"}));
}

#[test]
fn what_a_page_must_not_do_is_seen() {
    let Some(mut browser) = Browser::start(800, 600) else { return };
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("bad.html");
    let complaints = |browser: &mut Browser, policy: &str, body: &str| {
        let text = format!(
            "<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">{body}<p id=end>"
        );
        std::fs::write(&page, text).unwrap();
        browser.open(&page, "");
        browser.wait("document.getElementById('end')");
        browser.complaints().join("\n")
    };
    let found = complaints(&mut browser, "default-src *", "<p>");
    assert_eq!(found, "");
    let picture = "<img src=http://127.0.0.1:9/a.png>";
    let found = complaints(&mut browser, "default-src 'none'", picture);
    assert!(found.contains("Content Security Policy"), "{found}");
    let found = complaints(&mut browser, "img-src *", picture);
    assert!(found.contains("requestWillBeSent"), "{found}");
    let found =
        complaints(&mut browser, "script-src 'unsafe-inline'", "<script>nothing()</script>");
    assert!(found.contains("exceptionThrown"), "{found}");
}
