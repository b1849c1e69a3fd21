use serde_json::{Value, json};

use super::*;
use crate::{Conversation, MediaKinds};

fn dataset(public: Option<&str>) -> HubDataset {
    let public = public.map(|name| Public::named(name).unwrap());
    HubDataset {
        has_agents: public.is_some_and(Public::has_agents),
        traces: TraceSettings::default(),
        public,
        repository: "org/name".to_owned(),
        revision: None,
        subset: None,
        split: None,
        column: None,
        filters: Vec::new(),
        entries: None,
    }
}

fn row(value: Value) -> Row {
    let Value::Object(row) = value else { panic!("{value}") };
    row
}

fn conversation(dataset: &HubDataset, value: Value) -> Option<Conversation> {
    let row = row(value);
    let shape = Shape::find(dataset, &row).unwrap_or_else(|error| panic!("{error}"));
    let mut all = Conversations::default();
    shape.add(&row, &mut MediaFiles::default(), &mut all).unwrap();
    all.into_vec().pop()
}

/// The system message and the texts of the turns.
fn texts(dataset: &HubDataset, value: Value) -> (Option<String>, Vec<String>) {
    let found = conversation(dataset, value).unwrap();
    let texts = found.turns.iter().map(|turn| turn.texts[0].to_string()).collect();
    (found.system.map(|text| text.to_string()), texts)
}

#[test]
fn columns_are_found_by_name_and_their_shape_by_value() {
    let cases = [
        (json!({"id": 1, "prompt": "Hi", "text": "no"}), None, vec!["Hi"]),
        (json!({"question": "Why?", "answer": "So."}), None, vec!["Why?"]),
        (json!({"turns": ["One", "Two"]}), None, vec!["One", "Two"]),
        (
            json!({"messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "One"},
                {"role": "assistant", "content": "So."},
                {"role": "user", "content": [{"type": "text", "text": "Two"}]},
            ]}),
            Some("Be brief."),
            vec!["One", "Two"],
        ),
        (
            json!({"conversations": [
                {"from": "human", "value": "<image>\nOne"}, {"from": "gpt", "value": "So."},
            ]}),
            None,
            vec!["One"],
        ),
        // A list for each turn.
        (json!({"conversation": [[{"role": "user", "content": "One"}], []]}), None, vec!["One"]),
        (
            json!({"instruction": "Sum up.", "input": "A text.", "output": "T."}),
            None,
            vec!["Sum up.\n\nA text."],
        ),
        (json!({"instruction": "Sing.", "input": "", "output": "La."}), None, vec!["Sing."]),
    ];
    for (value, system, wanted) in cases {
        let (found, prompts) = texts(&dataset(None), value.clone());
        assert_eq!(
            (found.as_deref(), prompts),
            (system, wanted.iter().map(|&t| t.into()).collect()),
            "{value}"
        );
    }
}

#[test]
fn rows_without_a_prompt_are_left_out_and_unknown_columns_are_named() {
    for value in [json!({"prompt": " "}), json!({"prompt": null}), json!({"messages": []})] {
        assert!(conversation(&dataset(None), value.clone()).is_none(), "{value}");
    }
    let error = |dataset: &HubDataset, value| match Shape::find(dataset, &row(value)) {
        Ok(_) => panic!("it has a shape"),
        Err(error) => error.to_string(),
    };
    assert_eq!(
        error(&dataset(None), json!({"a": 1, "b": 2})),
        "--hf-column: is required, since no column of org/name has a name that is usual for \
         prompts; its columns are a, b"
    );
    let other = HubDataset { column: Some("c".to_owned()), ..dataset(None) };
    assert_eq!(
        error(&other, json!({"prompt": "Hi"})),
        "--hf-column: the dataset does not have a column \"c\"; its columns are prompt"
    );
}

#[test]
fn public_datasets_have_their_own_shapes() {
    let first = texts(&dataset(Some("spec-bench")), json!({"turns": ["One", "Two"]}));
    assert_eq!(first, (None, vec!["One".to_owned()]));
    let both = texts(&dataset(Some("spec_al_mtbench")), json!({"prompt": ["One", "Two"]}));
    assert_eq!(both.1, ["One", "Two"]);
    let (_, edit) =
        texts(&dataset(Some("blazedit-5-k")), json!({"code": "a = {1}", "change_request": "b"}));
    assert!(edit[0].contains("```python\na = {1}\n```") && edit[0].ends_with("\nb"), "{edit:?}");

    let video = "https://example.com/a.mp4";
    let value =
        json!({"question": "Who?", "choices": {"A": "me", "B": "you", "C": ""}, "video": video});
    let found = conversation(&dataset(Some("mmvu")), value).unwrap();
    assert_eq!(found.turns[0].texts[0].to_string(), "Who? A.me B.you");
    assert_eq!(found.turns[0].media[0].content.url(), video);

    let image = json!({"bytes": "R0lGODlhAQABAAAAACw=", "path": null});
    let found =
        conversation(&dataset(Some("mmstar")), json!({"question": "What?", "image": image}));
    let media = &found.unwrap().turns[0].media[0];
    assert_eq!(
        (media.kind, media.content.url()),
        (MediaKinds::IMAGE, "data:image/gif;base64,R0lGODlhAQABAAAAACw=".to_owned())
    );
    let without = json!({"question": "What?", "image": null});
    assert!(conversation(&dataset(Some("mmstar")), without).is_none());
}

#[test]
fn references_instead_of_prompts_are_explained() {
    let dataset = dataset(Some("speed_bench_coding"));
    let row = row(json!({
        "turns": ["FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE USING SPECDEC_BENCH"],
    }));
    let shape = Shape::find(&dataset, &row).unwrap();
    let mut all = Conversations::default();
    let Err(Unusable::Dataset(error)) = shape.add(&row, &mut MediaFiles::default(), &mut all)
    else {
        panic!("it is usable");
    };
    assert!(error.contains("--custom-dataset-type"), "{error}");
}

#[test]
fn names_are_unique_and_found_as_aiperf_writes_them() {
    for public in PUBLIC {
        assert!(std::ptr::eq(Public::named(public.name).unwrap(), public), "{}", public.name);
        assert!(!public.rows.is_empty() && !public.licence.is_empty(), "{}", public.name);
    }
    for name in ["aimo-numina-1-5", "spec-al-gsm8-k", "blazedit-10-k", "SHAREGPT"] {
        assert!(Public::named(name).is_some(), "{name}");
    }
    assert!(Public::named("sharegpt2").is_none());
}

fn names(files: &[&str]) -> Vec<String> {
    files.iter().map(|&file| file.to_owned()).collect()
}

#[test]
fn converted_files_are_chosen_by_their_directories() {
    let files = names(&[
        ".gitattributes",
        "main/partial-train/0000.parquet",
        "main/test/0000.parquet",
        "main/test/0001.parquet",
        "main/test/index.duckdb",
        "other/test/0000.parquet",
    ]);
    let chosen = |subset, split| layout::converted(&files, subset, split);
    assert_eq!(chosen(Some("main"), None).unwrap(), files[1..2]);
    assert_eq!(chosen(Some("main"), Some("test")).unwrap(), files[2..4]);
    assert_eq!(chosen(Some("other"), None).unwrap(), files[5..]);
    assert_eq!(
        chosen(None, None).unwrap_err().to_string(),
        "--hf-subset: the dataset has several subsets; choose one of main, other"
    );
    assert_eq!(
        chosen(Some("main"), Some("dev")).unwrap_err().to_string(),
        "--hf-split: the dataset does not have a split \"dev\"; choose one of train, test"
    );
    let default = names(&["a/test/0.parquet", "default/train/0.parquet"]);
    assert_eq!(layout::converted(&default, None, None).unwrap(), default[1..]);
    assert!(layout::converted(&names(&["README.md"]), None, None).unwrap().is_empty());
}

#[test]
fn own_files_are_chosen_by_their_names() {
    type Case<'a> = (&'a [&'a str], Option<&'a str>, Option<&'a str>, &'a [&'a str]);
    let cases: [Case<'_>; 6] = [
        (
            &["README.md", "data/test-0.parquet", "data/train-0.parquet"],
            None,
            None,
            &["data/train-0.parquet"],
        ),
        (&["a/test.jsonl", "b/test.jsonl", "b/x.json"], Some("b"), None, &["b/test.jsonl"]),
        (&["question.jsonl"], None, None, &["question.jsonl"]),
        (&["train.json", "valid.json", "dataset_infos.json"], None, Some("valid"), &["valid.json"]),
        (&["en-test.parquet", "de-test.parquet"], Some("de"), Some("test"), &["de-test.parquet"]),
        (&["README.md", ".x/a.json"], None, None, &[]),
    ];
    for (files, subset, split, wanted) in cases {
        let found = layout::own(&names(files), subset, split).unwrap();
        assert_eq!(found, wanted, "{files:?}");
    }
    let error = layout::own(&names(&["train.json"]), None, Some("test")).unwrap_err().to_string();
    assert_eq!(error, "--hf-split: no file is named after \"test\"; the files are train.json");
}

#[test]
fn json_is_an_array_or_lines() {
    for text in ["[{\"a\": 1}, {\"a\": 2}]", " {\"a\": 1}\n{\"a\": 2}\n", "{\"a\": 1} {\n\"a\": 2}"]
    {
        let rows: Vec<Row> = rows::json(text.as_bytes().into()).map(Result::unwrap).collect();
        assert_eq!(rows, [row(json!({"a": 1})), row(json!({"a": 2}))], "{text}");
    }
    // They are left out.
    for text in ["[1, null]", "1 null"] {
        let rows: Vec<Row> = rows::json(text.as_bytes().into()).map(Result::unwrap).collect();
        assert_eq!(rows, [Row::new(), Row::new()], "{text}");
    }
    for text in ["[{\"a\": 1},", "{\"a\": 1}\nx"] {
        assert!(rows::json(text.as_bytes().into()).any(|row| row.is_err()), "{text}");
    }
    assert_eq!(rows::json(b"".as_slice().into()).count(), 0);
}
