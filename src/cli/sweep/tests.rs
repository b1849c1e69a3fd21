use super::*;
use serde_json::json;

/// Returns the directory and the flags of each cell, and the arguments common to all.
fn cells(flags: &[&str]) -> (Vec<(String, String)>, String) {
    let sweep = sweep(flags).unwrap().unwrap();
    let cell = |(variation, flags): &(Variation, Vec<String>)| {
        (variation.directory().to_owned(), flags.join(" "))
    };
    let common: Vec<_> = sweep.common[2..].iter().map(|it| it.to_str().unwrap()).collect();
    (sweep.cells.iter().map(cell).collect(), common.join(" "))
}

fn sweep(flags: &[&str]) -> Result<Option<Sweep>, ConfigError> {
    let mut command = crate::cli::command();
    command.build();
    let arguments: Vec<OsString> =
        ["aiperf", "profile"].iter().chain(flags).map(OsString::from).collect();
    Sweep::from_arguments(&arguments, &command)
}

fn refusal(flags: &[&str]) -> String {
    sweep(flags).map(|found| found.map(|it| it.cells.len())).unwrap_err().to_string()
}

fn pairs_of(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

#[test]
fn a_grid_is_in_the_order_of_the_paths_and_the_last_varies_fastest() {
    let flags = ["-m", "m", "--request-rate=10,20.5", "--concurrency", "1,2", "--streaming"];
    let (found, common) = cells(&flags);
    assert_eq!(common, "-m m --streaming");
    assert_eq!(
        found,
        pairs_of(&[
            ("concurrency_1__rate_10.0", "--concurrency=1 --request-rate=10"),
            ("concurrency_1__rate_20.5", "--concurrency=1 --request-rate=20.5"),
            ("concurrency_2__rate_10.0", "--concurrency=2 --request-rate=10"),
            ("concurrency_2__rate_20.5", "--concurrency=2 --request-rate=20.5"),
        ])
    );
    // ISL comes before concurrency; an alias and a time with a unit.
    let (found, _) = cells(&["--concurrency", "1,2", "--synthetic-input-tokens-mean", "20,40"]);
    assert_eq!(
        found[1],
        ("mean_20__concurrency_2".to_owned(), "--isl=20 --concurrency=2".to_owned())
    );
    let (found, _) = cells(&["--benchmark-duration", "10s, 500ms"]);
    assert_eq!(found[1].0, "duration_0.5");
}

#[test]
fn zip_takes_the_values_element_by_element() {
    let flags = ["--sweep-type", "zip", "--isl", "20,40", "--osl", "4,8", "--concurrency", "1,2"];
    let (found, common) = cells(&flags);
    assert_eq!(common, "--sweep-type zip");
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["isl_20__osl_4__concurrency_1", "isl_40__osl_8__concurrency_2"]);
    // A value may be repeated.
    assert_eq!(cells(&["--sweep-type=zip", "--isl", "20,40", "--osl", "4,4"]).0.len(), 2);
    let uneven = refusal(&["--sweep-type=zip", "--isl", "20,40,80", "--concurrency", "1,2"]);
    assert!(uneven.contains("--isl has 3, --concurrency has 2"), "{uneven}");
}

#[test]
fn pairs_are_one_axis() {
    let (found, _) = cells(&["--isl-osl-pairs", "128:64, 512/128", "--concurrency", "1,2"]);
    assert_eq!(found.len(), 4);
    assert_eq!(
        found[1],
        (
            "isl_128__osl_64__concurrency_2".to_owned(),
            "--isl=128 --osl=64 --concurrency=2".to_owned()
        )
    );
    assert!(refusal(&["--isl-osl-pairs", "128"]).contains("not a list of pairs"));
    assert!(refusal(&["--isl-osl-pairs", "128:64", "--isl", "3"]).contains("remove these"));
}

#[test]
fn scenarios_set_any_flag_of_a_run() {
    let flags = [
        "--concurrency",
        "9",
        "--streaming",
        "--variant",
        "low: concurrency=1, streaming=false",
        "--sweep-variant=isl=20, benchmark_duration=500ms, extra_inputs=a:b",
    ];
    let (found, common) = cells(&flags);
    // A switch of a scenario is given once.
    assert_eq!(common, "--concurrency 9");
    assert_eq!(
        found,
        pairs_of(&[
            ("low", "--concurrency=1 --streaming=false"),
            ("v1", "--isl=20 --benchmark-duration=500ms --extra-inputs=a:b"),
        ])
    );
    let found = sweep(&flags).unwrap().unwrap();
    let values: Vec<&Map<String, Value>> = found.cells.iter().map(|(it, _)| &it.values).collect();
    assert_eq!(json!(values[0]), json!({"phases.profiling.concurrency": 1, "streaming": false}));
    assert_eq!(values[1]["phases.profiling.duration"], 0.5);
    let names: Vec<&str> = found.parameters.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["concurrency", "streaming", "isl", "benchmark_duration", "extra_inputs"]);
    for (scenarios, said) in [
        (vec!["a: isl=1"], "a single scenario"),
        (vec!["a: isl=1", "a: isl=2"], "names two cells"),
        (vec!["a: isl=1", "b"], "not of the form"),
        (vec!["a: isl=1", "b: no-such=2"], "not a flag of aiperf profile"),
        (vec!["a: isl=1", "b: num-profile-runs=2"], "is the same in all cells"),
        (vec!["a: isl=1", "b: tokenizer=builtin"], "is the same in all cells"),
        (vec!["a: isl=1", "b: api-key=hunter2"], "--api-key has a secret"),
        (vec!["a: isl=1", "b: header='Authorization: hunter2'"], "--header has a secret"),
        (vec!["logs: isl=1", "b: isl=2"], "not available"),
        (vec!["..: isl=1", "b: isl=2"], "does not name a directory"),
    ] {
        let flags: Vec<&str> = scenarios.iter().flat_map(|it| ["--variant", *it]).collect();
        let refused = refusal(&flags);
        assert!(refused.contains(said) && !refused.contains("hunter2"), "{refused}");
    }
    let both = refusal(&["--variant", "isl=1", "--variant", "isl=2", "--concurrency", "1,2"]);
    assert!(both.contains("cannot be combined with a list (concurrency)"), "{both}");
}

#[test]
fn equal_values_are_run_once() {
    let found = |flags: &[&str]| {
        let found = sweep(flags).unwrap().unwrap();
        let names = found.cells.iter().map(|(cell, _)| cell.directory().to_owned());
        (names.collect::<Vec<_>>(), found.note.unwrap_or_default())
    };
    let (cells, note) = found(&["--isl", "1,2,1,2,1"]);
    assert_eq!(cells, ["mean_1", "mean_2"]);
    assert_eq!(note, "values of the sweep that are given twice are run once: 1, 2, 1");
    let zip = ["--isl", "1,1,1", "--osl", "2,3,2", "--sweep-type", "zip"];
    let (cells, note) = found(&zip);
    assert_eq!(cells.len(), 2, "{cells:?}");
    assert!(note.ends_with("run once: 1:2"), "{note}");
    assert_eq!(found(&["--isl", "1,2"]).1, "");
}

#[test]
fn what_is_not_a_sweep_stays_as_it_is() {
    for flags in [
        &["--concurrency", "4"][..],
        &["--concurrency=4", "--url", "a,b"],
        &["--model", "a,b", "--", "--concurrency", "1"],
        &["--concurrency"],
        &[],
    ] {
        assert!(sweep(flags).unwrap().is_none(), "{flags:?}");
    }
    assert!(refusal(&["--isl", "1,2", "--isl", "3,4"]).contains("two lists"));
    let long: Vec<String> = (1..=40).map(|value| value.to_string()).collect();
    let long = long.join(",");
    assert!(refusal(&["--isl", &long, "--osl", &long]).contains("more than 1000 cells"));
}
