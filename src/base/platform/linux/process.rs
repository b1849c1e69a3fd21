//! This process, its threads and its child processes.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use rustix::process::{
    Pid, Signal, kill_process, kill_process_group, setpriority_process, test_kill_process_group,
};
use rustix::thread::gettid;

use crate::platform::Background;

/// Lowers the priority of the calling thread, and of the threads that it starts from now on, so
/// that they do not delay the measurement. If the system rejects the change, the priority stays.
pub fn yield_to_measurement(work: Background) {
    let nice = match work {
        Background::Queued => 19,
        Background::Timely => 5,
    };
    let _ = setpriority_process(Some(gettid()), nice);
}

/// Sends SIGTERM to `child`.
pub fn terminate(child: &mut Child) -> io::Result<()> {
    Ok(kill_process(Pid::from_child(child), Signal::TERM)?)
}

/// Lets `command` lead a group of processes, which can be ended together.
pub fn lead_group(command: &mut Command) {
    command.process_group(0);
}

/// Sends SIGTERM to `child`, and to all processes of the group that it leads.
pub fn terminate_group(child: &mut Child) -> io::Result<()> {
    Ok(kill_process_group(Pid::from_child(child), Signal::TERM)?)
}

/// Returns whether there are processes in the group that `child` leads or led.
pub fn has_group(child: &Child) -> bool {
    test_kill_process_group(Pid::from_child(child)).is_ok()
}

/// Kills `child`, and all processes of the group that it leads.
pub fn kill_group(child: &mut Child) -> io::Result<()> {
    Ok(kill_process_group(Pid::from_child(child), Signal::KILL)?)
}

/// Returns the path of this program, even if its file was replaced meanwhile.
#[must_use]
pub fn own_program() -> OsString {
    let own = "/proc/self/exe";
    if std::path::Path::new(own).exists() {
        return own.into();
    }
    std::env::current_exe().map_or_else(|_| "aiperf".into(), OsString::from)
}
