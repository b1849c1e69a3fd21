use uuid::Uuid;

use base::redact::ShownUrl;
use client::endpoint::EndpointType;

use super::super::{Config, Identity};
use super::*;

fn provider_of(url: &str) -> &'static str {
    infer_provider(&Url::parse(url).unwrap())
}

#[test]
fn each_host_implies_its_provider() {
    let table = [
        ("https://api.openai.com/v1", "openai"),
        ("https://api.anthropic.com", "anthropic"),
        ("https://api.deepseek.com", "deepseek"),
        ("https://api.mistral.ai", "mistral_ai"),
        ("https://api.cohere.ai", "cohere"),
        ("https://api.cohere.com", "cohere"),
        ("https://api.x.ai", "x_ai"),
        ("https://api.groq.com/openai/v1", "groq"),
        ("https://api.perplexity.ai", "perplexity"),
        ("https://generativelanguage.googleapis.com", "gcp.gemini"),
        ("https://europe-west4-aiplatform.googleapis.com", "gcp.vertex_ai"),
        ("https://bedrock-runtime.us-east-1.amazonaws.com", "aws.bedrock"),
        ("https://mine.openai.azure.com", "azure.ai.openai"),
        ("https://mine.services.ai.azure.com/models", "azure.ai.inference"),
        ("https://us-south.ml.cloud.ibm.com/ml/v1/text/chat", "ibm.watsonx.ai"),
        ("https://gateway.ibm.com/watsonx/v1", "ibm.watsonx.ai"),
        ("http://localhost:8000", "_OTHER"),
    ];
    for (url, provider) in table {
        assert_eq!(provider_of(url), provider, "{url}");
    }
}

#[test]
fn hosts_that_only_look_alike_imply_nothing() {
    for url in [
        "https://api.openai.com.example.org",
        "https://notapi.openai.com",
        "https://-aiplatform.googleapis.com",
        "https://bedrock-runtime.amazonaws.com",
        "https://openai.azure.com",
        "https://us-south.ml.cloud.ibm.com",
        "https://us-south.ml.cloud.ibm.com/v1/chat/completions",
        "https://www.ibm.com/docs",
        "https://example.org/?host=api.openai.com",
    ] {
        assert_eq!(provider_of(url), OTHER, "{url}");
    }
}

#[test]
fn upper_case_hosts_are_the_same_hosts() {
    assert_eq!(provider_of("https://API.OpenAI.com"), "openai");
}

fn interner(models: &[&str]) -> Interner {
    let identity = Identity {
        benchmark_id: Uuid::nil(),
        sweep_id: None,
        shard: None,
        endpoint_type: EndpointType::COMPLETIONS,
        models: models.iter().map(|name| Arc::from(*name)).collect(),
        urls: vec!["localhost:8000".into()],
        phases: Vec::new(),
        tenants: Vec::new(),
        info: crate::RunSettings::default(),
        clock: base::units::Clock::start(),
    };
    Interner::new(&Config::default(), &identity)
}

#[test]
fn a_seventeenth_response_model_is_other() {
    let mut interner = interner(&["m"]);
    for n in 0..16 {
        assert_eq!(interner.response_model(Some(&format!("m{n}"))), Some(ResponseModel::Known(n)));
    }
    assert_eq!(interner.response_model(Some("m16")), Some(ResponseModel::Other));
    assert_eq!(interner.response_model(Some("m3")), Some(ResponseModel::Known(3)));
    assert_eq!(interner.response_model(Some("")), None);
}

#[test]
fn a_page_of_text_is_not_a_response_model() {
    let page = "x".repeat(257);
    assert_eq!(interner(&["m"]).response_model(Some(&page)), Some(ResponseModel::Other));
}

#[test]
fn with_several_models_the_body_says_which() {
    let several = interner(&["a", "b\"c"]);
    assert_eq!(several.request_model("b\"c"), Some(1));
    assert_eq!(several.request_model("z"), None);
    assert_eq!(several.request_model(""), None);
    assert_eq!(interner(&["a"]).request_model(""), Some(0));
}

#[test]
fn servers_are_told_by_host_and_port() {
    let attributes_of = |url| interner(&["m"]).server(url);
    assert_eq!(attributes_of("http://[::1]:8000/v1").address.as_deref(), Some("::1"));
    assert_eq!(attributes_of("https://example.org/x").port, Some(443));
    assert_eq!(attributes_of("localhost:8000").port, Some(8000));
    assert_eq!(attributes_of("http://").address, None);
}

#[test]
fn urls_of_one_server_share_their_attribute_set() {
    let mut interner = interner(&["m"]);
    let one = interner.server_index(&ShownUrl::from("http://h:1/v1/chat/completions"));
    let same = interner.server_index(&ShownUrl::from("http://h:1/v1/completions"));
    let another = interner.server_index(&ShownUrl::from("http://h:2/v1/completions"));
    assert_eq!(one, same);
    assert_ne!(one, another);
}
