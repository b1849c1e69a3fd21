use quick_xml::Reader;
use quick_xml::events::Event;

use super::*;
use crate::judge::evaluate::Reading;

fn judged(gate: &str, held: bool, note: Option<&str>) -> Judged {
    Judged {
        gate: gate.to_owned(),
        value: Some(Reading::Number(300.0)),
        operator: "<=",
        limit: Reading::Number(250.0),
        unit: "ms".to_owned(),
        range: None,
        interval: None,
        margin_percent: Some(-20.0),
        confidence: None,
        held,
        undecided: false,
        note: note.map(str::to_owned),
    }
}

fn run(label: Option<&str>, failure: Option<&str>, gates: Vec<Judged>) -> JudgedRun {
    JudgedRun { label: label.map(str::to_owned), failure: failure.map(str::to_owned), gates }
}

/// Returns the elements with their attributes, in order.
fn elements(xml: &str) -> Vec<(String, Vec<(String, String)>)> {
    let mut reader = Reader::from_str(xml);
    let mut found = Vec::new();
    loop {
        match reader.read_event().unwrap() {
            Event::Start(element) | Event::Empty(element) => {
                let name = element.name().as_ref().to_owned();
                let attributes = element.attributes().map(|attribute| {
                    let attribute = attribute.unwrap();
                    let key = attribute.key.as_ref().to_owned();
                    (key, quick_xml::escape::unescape(&attribute.value).unwrap().into_owned())
                });
                found.push((name, attributes.collect()));
            }
            Event::Eof => return found,
            _ => {}
        }
    }
}

#[test]
fn junit_has_a_case_for_each_run_and_gate() {
    let hostile = "server:a{b=\"<&'\u{1}\u{ffff}]]>\"}<=1";
    let runs = [
        run(None, None, vec![judged("x<=250", true, None), judged(hostile, false, None)]),
        run(Some("trial_0002"), Some("no server"), Vec::new()),
    ];
    let xml = junit(&suites(&runs));
    let found = elements(&xml);
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    let expected = "testsuites testsuite testcase testcase system-out testcase failure testsuite testcase error";
    assert_eq!(names.join(" "), expected);
    let attribute = |at: usize, name: &str| {
        let found = found[at].1.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).unwrap()
    };
    let counts = |at| ["tests", "failures", "errors"].map(|name| attribute(at, name));
    assert_eq!(counts(0), ["4", "1", "1"]);
    assert_eq!(counts(1), ["3", "1", "0"]);
    assert_eq!(counts(7), ["1", "0", "1"]);
    assert_eq!(
        (attribute(1, "name"), attribute(7, "name")),
        ("aiperf.gates", "aiperf.gates.trial_0002")
    );
    assert_eq!([2, 3, 8].map(|at| attribute(at, "name")), ["run", "x<=250", "run"]);
    assert_eq!(attribute(5, "name"), "server:a{b=\"<&'  ]]>\"}<=1");
    assert_eq!(attribute(6, "message"), "300 ms, required <= 250 ms");
    assert_eq!(attribute(9, "message"), "no server");
    // A case that passed says by how much.
    assert!(xml.contains("<system-out>300 ms, required &lt;= 250 ms</system-out>"), "{xml}");
}

#[test]
fn github_reads_one_line_for_each_failed_gate() {
    let runs = [run(
        Some("trial_0001"),
        None,
        vec![judged("a<=250", true, None), judged("b<=5%", false, Some("two\nlines"))],
    )];
    assert_eq!(
        annotations(&runs),
        "::error title=aiperf gate failed::trial_0001: b<=5%25: 300 ms (two lines), required <= 250 \
         ms\n"
    );
}

#[test]
fn markdown_has_a_row_for_each_gate() {
    let gates = vec![judged("a|b<=250", false, Some("<b>"))];
    let text = markdown(&[run(None, Some("cancelled"), gates)]);
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
    assert_eq!(lines[0], "| Gate | Value | Limit | Margin | Held | Note |");
    assert_eq!(lines[2], "| a\\|b&lt;=250 | 300 ms | &lt;= 250 ms | -20.0% | **no** | &lt;b> |");
    assert!(text.contains("The run failed: cancelled"), "{text}");
    let verdict = "### aiperf gates\n\n**The run failed. 1 of 1 gates did not hold.**\n\n";
    assert!(text.starts_with(verdict), "{text}");
    let labelled = markdown(&[run(Some("trial_0001"), None, vec![judged("a<=1", true, None)])]);
    assert!(labelled.contains("| trial_0001 | a&lt;=1 |") && labelled.contains("| Run |"));
    assert!(labelled.starts_with("### aiperf gates\n\n**The gate held.**\n\n"), "{labelled}");
}
