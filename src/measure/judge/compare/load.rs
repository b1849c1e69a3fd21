//! In what the loads of two runs differ. Their results then differ by the load, whatever the servers do.

use serde_json::Value as Json;

use super::{Difference, differences};

/// Members of a part of a dataset that do not change what a request is: how many there are.
const COUNTS: [&str; 1] = ["entries"];

/// Names of settings of a dataset, by the ends of their paths.
const NAMES: [(&str, &str); 6] = [
    ("input_tokens.mean", "input length"),
    ("input_tokens.stddev", "standard deviation of the input length"),
    ("output_tokens.mean", "output length"),
    ("output_tokens.stddev", "standard deviation of the output length"),
    ("prefix_length", "length of shared prefixes"),
    ("turns.mean", "turns"),
];

/// Whether models and endpoints are what is compared, as by `aiperf ab`, or a part of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Models {
    Compared,
    OfTheLoad,
}

/// Returns in what the loads of two runs with the configurations `base` and `new` differ, such as
/// `concurrency 32 and 8`: in the concurrency, the rate and the arrivals of the phases that are measured, in
/// the dataset and its lengths, and in the model and the kind of endpoint unless they are what is compared.
/// Seeds, numbers of requests, durations, warmups and the directory of a file are not part of the load.
#[must_use]
pub fn different_loads(base: &Json, new: &Json, models: Models) -> Vec<String> {
    let [mut base, mut new] = [base, new].map(|config| described(config, models));
    tell_sources(&mut base, &mut new);
    differences(&Json::Object(base), &Json::Object(new)).iter().map(stated).collect()
}

/// Name of the fact with the parts of the dataset.
const PARTS: &str = "data set";

/// Replaces the sources of parts that have different kinds of them by their names.
fn tell_sources(base: &mut serde_json::Map<String, Json>, new: &mut serde_json::Map<String, Json>) {
    let parts = |facts: &mut serde_json::Map<String, Json>| {
        facts.get_mut(PARTS).and_then(Json::as_array_mut).map(std::mem::take).unwrap_or_default()
    };
    let (mut old, mut other) = (parts(base), parts(new));
    let kind = |part: &Json| part["source"].as_object()?.keys().next().cloned();
    for (base, new) in old.iter_mut().zip(&mut other) {
        if kind(base) == kind(new) {
            continue;
        }
        for part in [base, new] {
            let Some(kind) = kind(part) else { continue };
            let path = &part["source"][&kind]["path"];
            part["source"] = if path.is_null() { kind.into() } else { path.clone() };
        }
    }
    base.insert(PARTS.to_owned(), old.into());
    new.insert(PARTS.to_owned(), other.into());
}

/// Returns the facts about the load of a configuration by their names.
fn described(config: &Json, models: Models) -> serde_json::Map<String, Json> {
    let mut facts = serde_json::Map::new();
    let mut add = |name: String, value: &Json| {
        if !value.is_null() {
            facts.insert(name, value.clone());
        }
    };
    let phases = config["schedule"]["phases"].as_array().map_or(&[][..], Vec::as_slice);
    let measured: Vec<&Json> = phases.iter().filter(|it| it["kind"] == "profiling").collect();
    for (number, phase) in measured.iter().enumerate() {
        let place = match (measured.len(), phase["name"].as_str()) {
            (1, _) => String::new(),
            (_, Some(name)) => format!(" of {name}"),
            (_, None) => format!(" of phase {}", number + 1),
        };
        let load = &phase["load"];
        let rate = &load["rate"];
        let named = [
            ("concurrency", &phase["concurrency"]["most"]),
            ("concurrency ramp", &phase["concurrency"]["ramp"]),
            ("prefill concurrency", &phase["prefill_concurrency"]["most"]),
            ("cancellation", &phase["cancellation"]),
        ];
        for (name, value) in named {
            add(format!("{name}{place}"), value);
        }
        if rate.is_null() {
            // That there is a concurrency and no rate is seen from both.
            if *load != "closed_loop" {
                add(format!("load{place}"), load);
            }
            continue;
        }
        let points = rate["points"].as_array();
        let only = points.filter(|points| points.len() == 1).map(|points| &points[0]["rate"]);
        add(format!("request rate{place}"), only.unwrap_or(&rate["points"]));
        add(format!("rate ramp{place}"), &rate["ramp"]);
        add(format!("arrivals{place}"), &rate["pattern"]);
    }
    add("replay".to_owned(), &config["schedule"]["replay"]);
    let dataset = &config["dataset"];
    add(PARTS.to_owned(), &Json::from_iter(parts(dataset)));
    if models == Models::OfTheLoad {
        add("model".to_owned(), &dataset["models"]);
        add("endpoint type".to_owned(), &config["endpoint"]["endpoint_type"]);
        add("streaming".to_owned(), &config["endpoint"]["streaming"]);
    }
    facts
}

/// Returns the parts of a dataset without what does not change a request.
fn parts(dataset: &Json) -> Vec<Json> {
    let mut parts = dataset["parts"].as_array().cloned().unwrap_or_default();
    for source in parts.iter_mut().filter_map(|part| part["source"].as_object_mut()) {
        for settings in source.values_mut().filter_map(Json::as_object_mut) {
            settings.retain(|name, _| !COUNTS.contains(&name.as_str()));
            // A file is the same in the checkout of another machine.
            if let Some(path) = settings.get_mut("path") {
                let name = path.as_str().and_then(|path| path.rsplit(['/', '\\']).next());
                *path = name.map_or(Json::Null, Json::from);
            }
        }
    }
    parts
}

/// States a difference, as in `concurrency 32 and 8`.
fn stated(difference: &Difference) -> String {
    let Difference { path, base, new } = difference;
    let known = NAMES.iter().find(|(end, _)| path.ends_with(end)).map(|(_, name)| *name);
    let name = known.map_or_else(|| setting(path), str::to_owned);
    format!("{name} {} and {}", shown(base), shown(new))
}

/// Returns the path of a setting in words: of one of a dataset, the part after its source.
fn setting(path: &str) -> String {
    let path = path.strip_suffix("[0]").unwrap_or(path);
    let Some((_, of_part)) = path.split_once("].") else { return path.replace('_', " ") };
    let of_source = of_part.strip_prefix("source.").and_then(|rest| rest.split_once('.'));
    match (of_part, of_source) {
        ("source", _) | (_, Some((_, "path"))) => PARTS.to_owned(),
        (_, of_source) => of_source.map_or(of_part, |(_, rest)| rest).replace(['.', '_'], " "),
    }
}

/// Returns a value in a few characters.
fn shown(value: &Json) -> String {
    const MAX_CHARS: usize = 60;
    let text = match value {
        Json::Null => "none".to_owned(),
        Json::String(text) => text.clone(),
        Json::Number(number) => {
            number.as_f64().map_or_else(|| number.to_string(), |it| it.to_string())
        }
        other => other.to_string(),
    };
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The configuration of a run in the form of the files: a warmup, and a measurement with this load.
    fn config(load: &Json, concurrency: Option<u64>, input: f64, entries: u64) -> Json {
        let limit = concurrency.map(|most| json!({"most": most, "ramp": null}));
        let phase = |kind: &str| json!({"kind": kind, "load": load, "concurrency": limit, "stop": {"requests": entries}});
        let source = json!({"entries": entries, "input_tokens": {"mean": input, "stddev": 0.0}});
        json!({
            "schedule": {"phases": [phase("warmup"), phase("profiling")], "replay": {"speedup": 1.0}},
            "dataset": {
                "parts": [{"source": {"synthetic": source}, "output_tokens": {"mean": 4.0}}],
                "models": ["m"],
                "random_seed": entries,
            },
            "endpoint": {"endpoint_type": "chat", "streaming": true},
            "server": {"urls": ["http://a"]},
        })
    }

    fn closed(concurrency: u64) -> Json {
        config(&json!("closed_loop"), Some(concurrency), 20.0, 60)
    }

    fn rate(rate: f64, pattern: &str) -> Json {
        let points = json!([{"at": 0, "rate": rate}]);
        let load = json!({"rate": {"points": points, "ramp": null, "pattern": pattern}});
        config(&load, None, 20.0, 60)
    }

    fn found(base: &Json, new: &Json) -> Vec<String> {
        different_loads(base, new, Models::OfTheLoad)
    }

    #[test]
    fn what_differs_is_named_with_both_values() {
        assert_eq!(found(&closed(32), &closed(8)), ["concurrency 32 and 8"]);
        let rates = found(&rate(50.0, "poisson"), &rate(20.5, "constant"));
        assert_eq!(rates, ["arrivals poisson and constant", "request rate 50 and 20.5"]);
        let both = found(&closed(2), &rate(50.0, "poisson"));
        assert_eq!(
            both,
            ["arrivals none and poisson", "concurrency 2 and none", "request rate none and 50"]
        );
        let longer = config(&json!("closed_loop"), Some(8), 30.0, 60);
        assert_eq!(found(&closed(8), &longer), ["input length 20 and 30"]);
        let mut other = closed(8);
        other["dataset"]["models"] = json!(["n"]);
        other["dataset"]["parts"][0]["output_tokens"]["mean"] = json!(8.0);
        assert_eq!(found(&closed(8), &other), ["output length 4 and 8", "model m and n"]);
        let only = different_loads(&closed(8), &other, Models::Compared);
        assert_eq!(only, ["output length 4 and 8"]);
    }

    #[test]
    fn more_requests_other_seeds_and_servers_are_the_same_load() {
        let mut longer = config(&json!("closed_loop"), Some(8), 20.0, 600);
        longer["server"]["urls"] = json!(["http://b"]);
        let phases = longer["schedule"]["phases"].as_array_mut().unwrap();
        phases.remove(0);
        assert_eq!(found(&closed(8), &longer), Vec::<String>::new());
    }

    #[test]
    fn files_are_told_by_their_names() {
        let setting = |path: &str| {
            let mut config = closed(8);
            config["dataset"]["parts"][0]["source"] = json!({"file": {"path": path, "entries": 1}});
            config
        };
        assert_eq!(found(&setting("a/x.jsonl"), &setting("/b/x.jsonl")), Vec::<String>::new());
        assert_eq!(
            found(&setting("x.jsonl"), &setting("y.jsonl")),
            ["data set x.jsonl and y.jsonl"]
        );
        assert_eq!(found(&closed(8), &setting("y.jsonl")), ["data set synthetic and y.jsonl"]);
    }
}
