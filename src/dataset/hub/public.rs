//! Public datasets with a name of their own (`--public-dataset`).

use serde::{Serialize, Serializer};

use crate::MediaKinds;

/// A public dataset: where it is, and how its rows become conversations.
#[derive(Debug, PartialEq)]
pub struct Public {
    /// The name on the command line.
    pub name: &'static str,
    /// The repository on the hub.
    pub repository: &'static str,
    /// The commit to read, if the dataset is known at one.
    pub revision: Option<&'static str>,
    pub(super) files: Files,
    /// Column with the prompts.
    pub(super) column: &'static str,
    /// Prompt with columns in braces, instead of a single column.
    pub(super) template: Option<&'static str>,
    /// Column with the images, audio or video of the first turn.
    pub(super) medium: Option<(MediaKinds, &'static str)>,
    /// Column, and the value that rows must have in it.
    pub(super) filter: Option<(&'static str, &'static str)>,
    /// Whether only the first message of the user is sent.
    pub(super) only_first: bool,
    /// Number of rows, as text.
    pub rows: &'static str,
    /// Licence that the dataset states.
    pub licence: &'static str,
    /// Description of the prompts.
    pub content: &'static str,
}

/// Where the rows of a dataset are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Files {
    /// The files of a subset, if the dataset has several, and of a split.
    Split(Option<&'static str>, &'static str),
    /// A file of ShareGPT conversations.
    ShareGpt(&'static str),
    /// Traces of agents (`weka_trace` or `exgentic`).
    Agents,
    /// A file outside the hub.
    Url(&'static str),
}

/// Serializes the name of the dataset.
impl Serialize for Public {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

impl Public {
    /// Returns the dataset with the name `text`, in any case and with any dashes.
    pub fn named(text: &str) -> Option<&'static Self> {
        let plain = |name: &str| -> String {
            name.chars()
                .filter(char::is_ascii_alphanumeric)
                .map(|c| c.to_ascii_lowercase())
                .collect()
        };
        let wanted = plain(text);
        PUBLIC.iter().find(|public| plain(public.name) == wanted)
    }

    /// Returns whether its rows are traces of agents.
    pub const fn has_agents(&self) -> bool {
        matches!(self.files, Files::Agents)
    }

    /// Returns the subset, if it is one of several.
    pub const fn subset(&self) -> Option<&'static str> {
        match self.files {
            Files::Split(subset, _) => subset,
            _ => None,
        }
    }

    /// Returns the split.
    pub const fn split(&self) -> Option<&'static str> {
        match self.files {
            Files::Split(_, split) => Some(split),
            _ => None,
        }
    }

    const fn new(name: &'static str, repository: &'static str, column: &'static str) -> Self {
        Self {
            name,
            repository,
            revision: None,
            files: Files::Split(None, "train"),
            column,
            template: None,
            medium: None,
            filter: None,
            only_first: false,
            rows: "",
            licence: NOT_STATED,
            content: "",
        }
    }

    const fn from(self, subset: Option<&'static str>, split: &'static str) -> Self {
        Self { files: Files::Split(subset, split), ..self }
    }

    /// Returns a dataset whose prompts come from a template instead of a column.
    const fn filled(name: &'static str, repository: &'static str, template: &'static str) -> Self {
        Self { template: Some(template), ..Self::new(name, repository, "") }
    }

    const fn with(self, kind: MediaKinds, column: &'static str) -> Self {
        Self { medium: Some((kind, column)), ..self }
    }

    const fn first(self) -> Self {
        Self { only_first: true, ..self }
    }

    const fn is(self, rows: &'static str, licence: &'static str, content: &'static str) -> Self {
        Self { rows, licence, content, ..self }
    }
}

const NOT_STATED: &str = "not stated";
const APACHE: &str = "Apache-2.0";
const MIT: &str = "MIT";
const CC_BY: &str = "CC-BY-4.0";
const OWN: &str = "own terms";
const SPEED: &str = "nvidia/SPEED-Bench";
const SPEED_TERMS: &str = "NVIDIA evaluation";
const EDIT: &str = "Apply the change request to this file, and write the whole changed file.\n\n\
                    File:\n```python\n{code}\n```\n\nChange request:\n{change_request}";
const TRANSCRIBE: &str = "Transcribe the speech.";

/// The public datasets.
#[rustfmt::skip]
pub static PUBLIC: &[Public] = &[
    Public { files: Files::ShareGpt("ShareGPT_V3_unfiltered_cleaned_split.json"), ..Public::new("sharegpt", "anon8231489123/ShareGPT_Vicuna_unfiltered", "conversations") }
        .is("about 94,000", APACHE, "chats of users with ChatGPT"),
    Public::new("aimo", "AI-MO/NuminaMath-TIR", "problem").is("72,441", APACHE, "competition mathematics"),
    Public::new("aimo_aime", "AI-MO/aimo-validation-aime", "problem").is("90", APACHE, "AIME problems"),
    Public::new("aimo_numina_cot", "AI-MO/NuminaMath-CoT", "problem").is("about 859,000", APACHE, "competition mathematics"),
    Public::new("aimo_numina_1_5", "AI-MO/NuminaMath-1.5", "problem").is("about 896,000", APACHE, "competition mathematics"),
    Public::new("mmstar", "Lin-Chen/MMStar", "question").from(None, "val").with(MediaKinds::IMAGE, "image")
        .is("1,500", NOT_STATED, "questions on images"),
    Public::filled("mmvu", "yale-nlp/MMVU", "{question} {choices}").from(None, "validation").with(MediaKinds::VIDEO, "video")
        .is("1,000", NOT_STATED, "questions on videos, by URL"),
    Public::new("vision_arena", "lmarena-ai/VisionArena-Chat", "conversation").with(MediaKinds::IMAGE, "images").first()
        .is("about 199,000", OWN, "chats on images; requires HF_TOKEN"),
    Public::new("llava_onevision", "lmms-lab/LLaVA-OneVision-Data", "conversations").from(Some("sharegpt4o"), "train")
        .with(MediaKinds::IMAGE, "image").first().is("about 57,000", APACHE, "instructions on images"),
    Public { files: Files::Url(SPEC_BENCH), ..Public::new("spec_bench", "hemingkx/Spec-Bench", "turns") }.first()
        .is("480", APACHE, "mixed tasks; from GitHub"),
    Public::new("spec_al_gsm8k", "openai/gsm8k", "question").from(Some("main"), "test").is("1,319", MIT, "school mathematics"),
    Public::new("spec_al_math500", "HuggingFaceH4/MATH-500", "problem").from(None, "test").is("500", MIT, "competition mathematics"),
    Public::new("spec_al_humaneval", "openai/openai_humaneval", "prompt").from(None, "test").is("164", MIT, "Python functions to complete"),
    Public::new("spec_al_mbpp", "google-research-datasets/mbpp", "text").from(Some("full"), "test").is("500", CC_BY, "Python tasks"),
    Public::new("spec_al_mtbench", "HuggingFaceH4/mt_bench_prompts", "prompt").is("80", APACHE, "chats of two turns"),
    Public::new("instruct_coder", "likaixin/InstructCoder", "instruction").is("about 108,000", NOT_STATED, "code instructions"),
    Public::filled("blazedit_5k", "vdaita/edit_5k_char", EDIT).is("under 1,000", NOT_STATED, "edits of files of 5,000 characters"),
    Public::filled("blazedit_10k", "vdaita/edit_10k_char", EDIT).is("under 1,000", NOT_STATED, "edits of files of 10,000 characters"),
    Public::filled("librispeech", "openslr/librispeech_asr", TRANSCRIBE).from(Some("clean"), "test").with(MediaKinds::AUDIO, "audio")
        .is("2,620", CC_BY, "speech from audiobooks"),
    Public::filled("voxpopuli", "facebook/voxpopuli", TRANSCRIBE).from(Some("en"), "test").with(MediaKinds::AUDIO, "audio")
        .is("about 1,800", "CC0-1.0", "speech in the European Parliament"),
    Public::filled("gigaspeech", "speechcolab/gigaspeech", TRANSCRIBE).from(Some("xs"), "test").with(MediaKinds::AUDIO, "audio")
        .is("about 25,600", APACHE, "speech from podcasts; requires HF_TOKEN"),
    Public::filled("ami", "edinburghcstr/ami", TRANSCRIBE).from(Some("ihm"), "test").with(MediaKinds::AUDIO, "audio")
        .is("about 12,600", CC_BY, "speech in meetings"),
    Public::filled("spgispeech", "kensho/spgispeech", TRANSCRIBE).from(Some("test"), "test").with(MediaKinds::AUDIO, "audio")
        .is("about 39,300", OWN, "speech in earnings calls; requires HF_TOKEN"),
    speed("speed_bench_qualitative", "qualitative", None),
    speed("speed_bench_coding", "qualitative", Some("coding")),
    speed("speed_bench_humanities", "qualitative", Some("humanities")),
    speed("speed_bench_math", "qualitative", Some("math")),
    speed("speed_bench_multilingual", "qualitative", Some("multilingual")),
    speed("speed_bench_qa", "qualitative", Some("qa")),
    speed("speed_bench_rag", "qualitative", Some("rag")),
    speed("speed_bench_reasoning", "qualitative", Some("reasoning")),
    speed("speed_bench_roleplay", "qualitative", Some("roleplay")),
    speed("speed_bench_stem", "qualitative", Some("stem")),
    speed("speed_bench_summarization", "qualitative", Some("summarization")),
    speed("speed_bench_writing", "qualitative", Some("writing")),
    speed("speed_bench_throughput_1k", "throughput_1k", None),
    speed("speed_bench_throughput_2k", "throughput_2k", None),
    speed("speed_bench_throughput_8k", "throughput_8k", None),
    speed("speed_bench_throughput_16k", "throughput_16k", None),
    speed("speed_bench_throughput_32k", "throughput_32k", None),
    exgentic("exgentic", "Exgentic/agent-llm-traces", "70036b93a04e61b0ea2706a68b962f4f26774587", "1,781"),
    exgentic("exgentic_v2", "Exgentic/agent-llm-traces-v2", "4b8ad4ab198438e5a170f9171c19c6a2cf7c1814", "not stated"),
    agents("semianalysis_cc_traces_weka", "semianalysisai/cc-traces-weka-no-subagents-051826", "98"),
    agents("semianalysis_cc_traces_weka_no_subagents", "semianalysisai/cc-traces-weka-no-subagents-051826", "98"),
    agents("semianalysis_cc_traces_weka_with_subagents", "semianalysisai/cc-traces-weka-062126", "393"),
    agents("semianalysis_cc_traces_weka_with_subagents_256k", "semianalysisai/cc-traces-weka-062126-256k", "393"),
    agents("semianalysis_cc_traces_weka_with_subagents_060226", "semianalysisai/cc-traces-weka-with-subagents-060226", "225"),
    agents("semianalysis_cc_traces_weka_with_subagents_060226_256k", "semianalysisai/cc-traces-weka-with-subagents-060226-256k", "225"),
    agents("semianalysis_cc_traces_weka_with_subagents_060526", "semianalysisai/cc-traces-weka-with-subagents-060526", "336"),
    agents("semianalysis_cc_traces_weka_with_subagents_060526_256k", "semianalysisai/cc-traces-weka-with-subagents-060526-256k", "336"),
    agents("semianalysis_cc_traces_weka_with_subagents_060826", "semianalysisai/cc-traces-weka-with-subagents-060826", "391"),
    agents("semianalysis_cc_traces_weka_with_subagents_060826_256k", "semianalysisai/cc-traces-weka-with-subagents-060826-256k", "391"),
    agents("semianalysis_cc_traces_weka_061326", "semianalysisai/cc-traces-weka-061326", "183"),
    agents("semianalysis_cc_traces_weka_061326_256k", "semianalysisai/cc-traces-weka-061326-256k", "183"),
    agents("semianalysis_cc_traces_weka_061526", "semianalysisai/cc-traces-weka-061526", "233"),
    agents("semianalysis_cc_traces_weka_061526_256k", "semianalysisai/cc-traces-weka-061526-256k", "232"),
    agents("semianalysis_cc_traces_weka_062126", "semianalysisai/cc-traces-weka-062126", "393"),
    agents("semianalysis_cc_traces_weka_062126_256k", "semianalysisai/cc-traces-weka-062126-256k", "393"),
];

const SPEC_BENCH: &str = "https://raw.githubusercontent.com/hemingkx/Spec-Bench/fd2c1cd7d2201ef71db4c5f4e455008f017967bf/data/spec_bench/question.jsonl";

/// Traces of agents with their messages, at a commit.
const fn exgentic(
    name: &'static str,
    repository: &'static str,
    commit: &'static str,
    rows: &'static str,
) -> Public {
    let files = Files::Agents;
    let all = Public { files, revision: Some(commit), ..Public::new(name, repository, "spans") };
    all.is(rows, NOT_STATED, "traces of agents with messages")
}

/// Traces of coding agents.
const fn agents(name: &'static str, repository: &'static str, rows: &'static str) -> Public {
    let all = Public { files: Files::Agents, ..Public::new(name, repository, "requests") };
    all.is(rows, NOT_STATED, "traces of coding agents")
}

/// Returns a part of SPEED-Bench, some of whose rows have only the source of a text.
const fn speed(name: &'static str, subset: &'static str, category: Option<&'static str>) -> Public {
    let filter = match category {
        Some(category) => Some(("category", category)),
        None => None,
    };
    let rows = match subset.as_bytes() {
        b"qualitative" if category.is_some() => "80",
        b"qualitative" => "880",
        _ => "1,536",
    };
    let whole = Public { filter, ..Public::new(name, SPEED, "turns") };
    whole.from(Some(subset), "test").is(rows, SPEED_TERMS, "prompts for speculative decoding")
}
