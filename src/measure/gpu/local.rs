//! GPUs of this machine, without an exporter: what NVIDIA's library or the kernel reports, as an
//! exposition with the names of DCGM's or AMD's exporter, so that all else is as with those.

mod amd;
mod nvml;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use url::Url;

/// Where the GPUs of this machine are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Local {
    /// NVIDIA's library NVML.
    Nvml,
    /// The files of Linux' driver for GPUs of AMD.
    Amd,
}

impl Local {
    /// Returns the source that `--gpu-telemetry` names.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "nvml" | "pynvml" => Some(Self::Nvml),
            "amdsmi" => Some(Self::Amd),
            _ => None,
        }
    }

    /// Returns AIPerf's URL of the source, whose path is the directory of sysfs unless it is `/sys`.
    pub fn url(self, sysfs: Option<&str>) -> Option<Url> {
        match self {
            Self::Nvml => Url::parse("pynvml://localhost").ok(),
            Self::Amd => {
                let mut url = Url::parse("amdsmi://localhost").ok()?;
                if let Some(sysfs) = sysfs {
                    url.set_path(sysfs);
                }
                Some(url)
            }
        }
    }
}

/// Returns the exposition of the GPUs at a URL of [`Local::url`].
///
/// # Errors
///
/// Fails with the reason if the library or the files are missing, or if there are no GPUs.
pub fn expose(url: &Url) -> Result<String, String> {
    let gpus = match url.scheme() {
        "pynvml" => nvml::read()?,
        "amdsmi" => amd::read(url)?,
        other => return Err(format!("{other} is not a source of GPU telemetry")),
    };
    Ok(exposition(&gpus))
}

/// A GPU with its labels and its values by their names in expositions.
#[derive(Debug, Default)]
struct Reading {
    labels: Vec<(&'static str, String)>,
    values: Vec<(&'static str, f64)>,
}

impl Reading {
    /// Adds a value unless it is absent.
    fn put(&mut self, name: &'static str, value: Option<f64>) {
        self.values.extend(value.map(|value| (name, value)));
    }
}

/// Writes an exposition with a family for each name.
fn exposition(gpus: &[Reading]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in gpus.iter().flat_map(|gpu| &gpu.values) {
        if !names.contains(name) {
            names.push(name);
        }
    }
    let mut text = String::new();
    for name in names {
        let _ = writeln!(text, "# TYPE {name} gauge");
        for gpu in gpus {
            let Some((_, value)) = gpu.values.iter().find(|(own, _)| *own == name) else {
                continue;
            };
            let label = |(name, value): &(&str, String)| format!("{name}=\"{}\"", escaped(value));
            let labels: Vec<String> = gpu.labels.iter().map(label).collect();
            let _ = writeln!(text, "{name}{{{}}} {value}", labels.join(","));
        }
    }
    text
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
