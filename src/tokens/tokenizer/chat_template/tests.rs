use std::fs;
use std::path::PathBuf;

use base::environment::Environment;

use super::*;

fn user() -> Value {
    json!([{"role": "user", "content": "hi"}])
}

fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(directory.path().join(name), text).unwrap();
    }
    directory
}

fn render(files: &[(&str, &str)]) -> Result<String, String> {
    let directory = directory(files);
    let source = Source::Path(directory.path().to_owned());
    let template = ChatTemplate::load(&source, Environment::new(&|_| None))
        .map_err(|error| error.to_string())?;
    template.render(&user(), &Value::Null)
}

#[test]
fn a_template_is_found_wherever_it_is_kept() {
    let text = "{{ bos_token }}{{ messages[0].content }}";
    let config = json!({"chat_template": text, "bos_token": {"content": "<s>"}}).to_string();
    assert_eq!(render(&[(CONFIG, &config)]).unwrap(), "<s>hi");
    let named = json!({"bos_token": "<s>", "chat_template": [
        {"name": "tool_use", "template": "no"}, {"name": "default", "template": text}]});
    assert_eq!(render(&[(CONFIG, &named.to_string())]).unwrap(), "<s>hi");
    let specials = r#"{"bos_token": "<b>"}"#;
    assert_eq!(render(&[(TEMPLATE, text), (SPECIALS, specials)]).unwrap(), "<b>hi");
    // The template file takes precedence over the member.
    assert_eq!(render(&[(TEMPLATE, "file"), (CONFIG, &config)]).unwrap(), "file");
}

#[test]
fn what_is_not_a_template_is_refused() {
    assert!(render(&[]).unwrap_err().contains("contains a chat template"));
    assert!(render(&[(CONFIG, "{}")]).unwrap_err().contains("contains a chat template"));
    assert!(render(&[(CONFIG, "[")]).unwrap_err().contains(CONFIG));
    let named = json!({"chat_template": [{"name": "rag", "template": ""}]}).to_string();
    assert!(
        render(&[(CONFIG, &named)]).unwrap_err().contains("named `default`; available are rag")
    );
    assert!(render(&[(TEMPLATE, "{% if %}")]).unwrap_err().contains("line 1: syntax error"));
    let raised = render(&[(TEMPLATE, "\n{{ raise_exception('no user') }}")]).unwrap_err();
    assert!(raised.contains("line 2") && raised.contains("no user"), "{raised}");
}

#[test]
fn the_date_is_todays() {
    let year = render(&[(TEMPLATE, "{{ strftime_now('%Y') }}")]).unwrap();
    assert!(year.parse::<i16>().unwrap() > 2000);
    assert!(render(&[(TEMPLATE, "{{ strftime_now('%') }}")]).is_err());
}

#[test]
fn a_template_adds_tokens_to_messages() {
    let source = Source::Path(PathBuf::from("../../tests/golden/tiny-model"));
    let counter = TokenCounter::load(&source, Environment::new(&|_| None)).unwrap();
    assert_eq!(counter.wrapping(), Wrapping::default());
    let counter = counter.with_chat_template(&source, Environment::new(&|_| None)).unwrap();
    let text = counter.chat_text(&user(), &Value::Null).unwrap().unwrap();
    assert_eq!(text, "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
    let frame = "<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n";
    assert_eq!(counter.wrapping().first, counter.count(frame));
    assert!(
        TokenCounter::builtin()
            .with_chat_template(&Source::Builtin, Environment::new(&|_| None))
            .is_err()
    );
}
