//! Families of servers, each in its own file: how their metrics are named and what these mean, and
//! what they report about the time of single requests.

mod declaration;
mod dynamo;
mod llama_cpp;
mod lmdeploy;
mod sglang;
mod tensorrt_llm;
mod text_generation_inference;
mod timing;
mod triton;
mod vllm;

pub use self::declaration::{
    Count, Hidden, InServer, PrefixCounters, Quantity, Role, SeriesKind, ServerFamily, Speculation,
    Statistic, Time, Times, Watched, gauge, seconds,
};

pub(crate) use self::timing::TENSORRT_LLM_EVENT;
pub use self::timing::{
    CachedTokens, Drafted, MEMBERS, Member, Object, ServerTiming, Stages, TimingMode, reports,
};

/// The known families, in the order of their tables. Those that run in the server of another family
/// precede it, as vLLM precedes Triton.
pub const ALL: &[&ServerFamily] = &[
    &vllm::FAMILY,
    &dynamo::FAMILY,
    &sglang::FAMILY,
    &tensorrt_llm::FAMILY,
    &lmdeploy::FAMILY,
    &text_generation_inference::FAMILY,
    &triton::FAMILY,
    &llama_cpp::FAMILY,
];

/// The families of the servers that process the requests of a run.
#[derive(Debug)]
pub struct Families {
    front_ends: Vec<&'static ServerFamily>,
    engines: Vec<&'static ServerFamily>,
}

impl Families {
    /// Returns the families for which `is_found` holds.
    pub fn found(is_found: impl Fn(&ServerFamily) -> bool) -> Self {
        let found = ALL.iter().copied().filter(|family| is_found(family));
        let (front_ends, engines) = found.partition(|family| family.role == Role::FrontEnd);
        Self { front_ends, engines }
    }

    /// Returns the families of the servers that the client sends its requests to. Behind a front end,
    /// several engines may share a request and count it again, and the endpoint of a front end may
    /// expose the metrics of its engines.
    pub fn outermost(&self) -> &[&'static ServerFamily] {
        if self.front_ends.is_empty() { &self.engines } else { &self.front_ends }
    }

    /// Returns the front end, if there is one.
    pub fn front_end(&self) -> Option<&'static ServerFamily> {
        self.front_ends.first().copied()
    }

    /// Returns the engines, which serve the client or the front end.
    pub fn engines(&self) -> &[&'static ServerFamily] {
        &self.engines
    }
}
