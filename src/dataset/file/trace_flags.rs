//! The flags of traces, and the formats that each of them affects.

use super::mapping::Prompts;
use super::{Fault, FileFormat};
use crate::TraceSettings;

/// Rejects trace flags that do not affect files of this format.
pub(super) fn check_traces(format: FileFormat, traces: &TraceSettings) -> Result<(), Fault> {
    use FileFormat::{Exgentic, MooncakeTrace, Otel, RandomPool, TraceLab, WekaTrace};
    let prompts = match format {
        MooncakeTrace => Some(Prompts::Blocks),
        Otel => Some(Prompts::Lengths),
        Exgentic => Some(Prompts::Recorded),
        _ => format.mapping().map(|mapping| mapping.prompts),
    };
    let synthesis = &traces.synthesis;
    let of_blocks = [
        ("--isl-block-size", traces.block_tokens.is_some()),
        ("--synthesis-prefix-len-multiplier", synthesis.prefix_len_multiplier != 1.0),
        ("--synthesis-prefix-root-multiplier", synthesis.prefix_root_multiplier != 1),
    ];
    let of_prompts = [
        ("--synthesis-prompt-len-multiplier", synthesis.prompt_len_multiplier != 1.0),
        ("--prompt-corpus", traces.corpus.is_some()),
    ];
    let of_agents = [("--use-think-time-only", traces.uses_think_time)];
    let of_entries = [("--num-dataset-entries", traces.entries.is_some())];
    let of_outputs = [("--replay-outputs", traces.replay_outputs.is_some())];
    let of_requests = [
        ("--trace-session-sample-ratio", traces.session_sample_ratio.is_some()),
        ("--max-context-length", traces.max_context_tokens.is_some()),
        ("--force-min-tokens", traces.force_min_tokens == Some(true)),
        ("--synthesis-max-isl", traces.max_input_tokens.is_some()),
        ("--synthesis-max-osl", traces.max_output_tokens.is_some()),
        ("--synthesis-speedup-ratio", synthesis.speedup_ratio != 1.0),
        ("--synthesis-output-len-multiplier", synthesis.output_len_multiplier != 1.0),
    ];
    let (refused, reason): (&[&[(&'static str, bool)]], &str) = match prompts {
        _ if format != Otel && traces.replay_outputs.is_some() => {
            (&[&of_outputs], "applies to otel, which has the responses; remove the flag")
        }
        _ if matches!(format, WekaTrace | TraceLab) => (&[], ""),
        _ if !matches!(format, RandomPool | Exgentic) && traces.entries.is_some() => (
            &[&of_entries],
            "applies to generated prompts, pools and traces of agents; remove the flag",
        ),
        _ if traces.uses_think_time => (
            &[&of_agents],
            "applies to weka_trace and tracelab, which have think times; remove the flag",
        ),
        Some(Prompts::Blocks) => (&[], ""),
        Some(Prompts::Lengths) => (
            &[&of_blocks[1..]],
            "applies to prompts that share hash IDs, which the trace does not have; remove the flag",
        ),
        Some(Prompts::Recorded) => (
            &[&of_blocks, &of_prompts],
            "applies to generated prompts, but recorded prompts are sent as they are; remove the \
             flag",
        ),
        None => (
            &[&of_blocks, &of_requests, &of_prompts],
            "applies to traces, but the file is not a trace; remove the flag",
        ),
    };
    match refused.iter().copied().flatten().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((flag, _)) => Err(Fault::Setting(flag, reason.to_owned())),
    }
}
