//! Description of the machine and its operating system.

/// Returns the host name from the environment, or `unknown`.
#[must_use]
pub fn name() -> String {
    let variables = ["HOSTNAME", "COMPUTERNAME"];
    let named = variables.iter().find_map(|name| std::env::var(name).ok());
    named.filter(|name| !name.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}

/// Returns `unknown`: the release of the kernel is not available.
#[must_use]
pub fn kernel() -> String {
    "unknown".to_owned()
}

#[must_use]
pub fn system() -> String {
    std::env::consts::OS.to_owned()
}

/// Returns nothing: the CPU is not available.
#[must_use]
pub const fn processor() -> Option<String> {
    None
}

/// Returns nothing: the memory is not available.
#[must_use]
pub const fn memory_bytes() -> Option<u64> {
    None
}
