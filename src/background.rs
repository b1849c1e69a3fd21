//! Work beside the measurement.

/// Lowers the calling thread's priority as far as it goes, and that of threads it
/// starts from then on: what is not measured must not delay what is. A system that
/// refuses leaves it as it was.
pub fn yield_to_measurement() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), 19);
}
