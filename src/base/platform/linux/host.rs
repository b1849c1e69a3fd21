//! Description of the machine and its operating system.

use std::fs;

use rustix::system::uname;

#[must_use]
pub fn name() -> String {
    uname().nodename().to_string_lossy().into_owned()
}

#[must_use]
pub fn kernel() -> String {
    uname().release().to_string_lossy().into_owned()
}

/// Returns the name and version of the distribution, or the name of the system.
#[must_use]
pub fn system() -> String {
    let named = field(&read("/etc/os-release"), "PRETTY_NAME", '=');
    named.unwrap_or_else(|| uname().sysname().to_string_lossy().into_owned())
}

/// Returns the model name of the CPU.
#[must_use]
pub fn processor() -> Option<String> {
    field(&read("/proc/cpuinfo"), "model name", ':')
}

#[must_use]
pub fn memory_bytes() -> Option<u64> {
    let total = field(&read("/proc/meminfo"), "MemTotal", ':')?;
    let kilobytes = total.strip_suffix("kB")?.trim().parse::<u64>().ok()?;
    Some(kilobytes * 1024)
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Returns the value of the first line `name` of `text`, without quotes.
fn field(text: &str, name: &str, separator: char) -> Option<String> {
    let value = text.lines().find_map(|line| {
        let (found, value) = line.split_once(separator)?;
        (found.trim() == name).then_some(value.trim().trim_matches('"'))
    });
    value.filter(|value| !value.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_systems_files() {
        let text = "NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12\"\nEMPTY=\n";
        assert_eq!(field(text, "PRETTY_NAME", '=').as_deref(), Some("Debian GNU/Linux 12"));
        assert_eq!((field(text, "EMPTY", '='), field(text, "OTHER", '=')), (None, None));
    }
}
