//! The `aiperf` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(aiperf::app::run(std::env::args_os()))
}
