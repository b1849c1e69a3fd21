//! The `aiperf` binary.

use std::process::ExitCode;

/// Threads free what others allocate (`docs/decisions/release.md`).
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ExitCode::from(aiperf::app::run(std::env::args_os()))
}
