//! The fields of exporters, with AIPerf's names and units.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use thiserror::Error;

use crate::metrics::gpu::Vendor;

/// Energy counters of GPUs.
pub(crate) const ENERGY: [(Vendor, &str); 2] =
    [(Vendor::Nvidia, "nvidia_energy_consumption"), (Vendor::Amd, "amd_energy_consumption")];

/// Power of GPUs.
pub const POWER: [(Vendor, &str); 2] =
    [(Vendor::Nvidia, "nvidia_power_usage"), (Vendor::Amd, "amd_power")];

/// The last error code of a GPU of NVIDIA.
pub const XID: &str = "nvidia_xid_errors";

/// Joules per megajoule, the unit of energy counters.
pub(crate) const JOULES: f64 = 1e6;

/// Gigabytes per mebibyte.
const GB_PER_MIB: f64 = 1.048_576e-3;

/// The most that a GPU can draw, in watts: several times the limit of any that exists.
pub(crate) const MAX_WATTS: f64 = 10_000.0;

/// The lowest of the integers by which DCGM expresses that it does not have a value.
const BLANK: f64 = 9.223_372_036_854e18;

/// The floating point numbers by which DCGM expresses that it does not have a value.
const BLANKS: RangeInclusive<f64> = 140_737_488_355_328.0..=140_737_488_355_331.0;

/// Maximum number of fields of a file.
const MAX_FIELDS: usize = 1000;

/// How samples are summarized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Summary {
    /// Statistics of all samples.
    Distribution,
    /// The increase of a counter.
    Increase,
    /// The last sample, of a code that cannot be averaged.
    Last,
}

/// A field, with its name and unit in files.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Its names in expositions; if an exporter has several, the first counts.
    pub sources: Vec<Arc<str>>,
    pub vendor: Vendor,
    /// Its name in files.
    pub tag: Arc<str>,
    /// Its name in tables.
    pub title: Arc<str>,
    pub unit: Arc<str>,
    /// What a sample is multiplied by.
    pub scale: f64,
    pub summary: Summary,
    /// Whether it is written to files. The others are read for warnings.
    pub is_shown: bool,
}

/// The value of a field in a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reading {
    /// That there is no value.
    Absent,
    /// Its value, in the field's unit.
    Value(f64),
    /// A value, in the field's unit, that no GPU can have.
    Impossible(f64),
}

impl Reading {
    /// Returns the value, if it can be one.
    pub const fn value(self) -> Option<f64> {
        if let Self::Value(value) = self { Some(value) } else { None }
    }
}

impl Field {
    /// Interprets a sample as the exporter reports it.
    pub fn read(&self, sample: f64) -> Reading {
        let magnitude = sample.abs();
        if sample.is_nan() || magnitude >= BLANK || BLANKS.contains(&magnitude) {
            return Reading::Absent;
        }
        let value = sample * self.scale;
        if self.limits().contains(&value) {
            Reading::Value(value)
        } else {
            Reading::Impossible(value)
        }
    }

    /// Returns whether the instances of a partitioned GPU have parts of its value: memory, and the
    /// activity of its units. All other values are those of the whole GPU, which exporters repeat for
    /// each instance.
    pub(crate) fn is_divided(&self) -> bool {
        self.sources.iter().any(|source| {
            let is_memory = source.contains("_FB_") && !source.ends_with("_PERCENT");
            let is_activity = source.starts_with("DCGM_FI_PROF_") && source.ends_with("_ACTIVE");
            is_memory || is_activity || &**source == "gpu_used_vram"
        })
    }

    /// Returns the values that are physically possible, by the unit.
    fn limits(&self) -> RangeInclusive<f64> {
        match &*self.unit {
            "W" => 0.0..=MAX_WATTS,
            // A share of time may exceed its whole by the resolution of the clock.
            "%" => 0.0..=101.0,
            "°C" => -100.0..=250.0,
            "count" | "" => f64::MIN..=f64::MAX,
            _ => 0.0..=f64::MAX,
        }
    }
}

/// A known field.
struct Known {
    sources: &'static [&'static str],
    tag: &'static str,
    title: &'static str,
    unit: &'static str,
    scale: f64,
    summary: Summary,
}

const fn gauge(
    sources: &'static [&'static str],
    tag: &'static str,
    title: &'static str,
    unit: &'static str,
) -> Known {
    Known { sources, tag, title, unit, scale: 1.0, summary: Summary::Distribution }
}

const fn counter(
    sources: &'static [&'static str],
    tag: &'static str,
    title: &'static str,
    unit: &'static str,
    scale: f64,
) -> Known {
    Known { sources, tag, title, unit, scale, summary: Summary::Increase }
}

impl Known {
    /// Sets what a sample is multiplied by.
    const fn scaled(self, scale: f64) -> Self {
        Self { scale, ..self }
    }
}

/// The fields of dcgm-exporter that AIPerf knows, in its order.
static NVIDIA: &[Known] = &[
    gauge(&["DCGM_FI_DEV_POWER_USAGE"], "nvidia_power_usage", "NVIDIA GPU Power Usage", "W"),
    // Millijoules.
    counter(
        &["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"],
        "nvidia_energy_consumption",
        "NVIDIA Energy Consumption",
        "MJ",
        1e-9,
    ),
    gauge(&["DCGM_FI_DEV_GPU_UTIL"], "nvidia_gpu_utilization", "NVIDIA GPU Utilization", "%"),
    gauge(
        &["DCGM_FI_DEV_MEM_COPY_UTIL"],
        "nvidia_memory_utilization",
        "NVIDIA Memory Utilization",
        "%",
    ),
    gauge(&["DCGM_FI_DEV_FB_USED"], "nvidia_memory_used", "NVIDIA GPU Memory Used", "GB")
        .scaled(GB_PER_MIB),
    gauge(&["DCGM_FI_DEV_GPU_TEMP"], "nvidia_temperature", "NVIDIA GPU Temperature", "°C"),
    gauge(&["DCGM_FI_PROF_SM_ACTIVE"], "nvidia_sm_utilization", "NVIDIA SM Utilization", "%")
        .scaled(100.0),
    gauge(
        &["DCGM_FI_DEV_DEC_UTIL"],
        "nvidia_decoder_utilization",
        "NVIDIA Decoder Utilization",
        "%",
    ),
    gauge(
        &["DCGM_FI_DEV_ENC_UTIL"],
        "nvidia_encoder_utilization",
        "NVIDIA Encoder Utilization",
        "%",
    ),
    Known {
        sources: &["DCGM_FI_DEV_XID_ERRORS"],
        tag: XID,
        title: "NVIDIA XID Errors",
        unit: "count",
        scale: 1.0,
        summary: Summary::Last,
    },
    // Nanoseconds.
    counter(
        &["DCGM_FI_DEV_POWER_VIOLATION"],
        "nvidia_power_violation",
        "NVIDIA Power Violation",
        "us",
        1e-3,
    ),
];

/// The fields of AMD's device-metrics-exporter that correspond to those of AIPerf, which reads
/// AMD's library instead.
static AMD: &[Known] = &[
    gauge(
        &["gpu_package_power", "gpu_power_usage", "gpu_average_package_power"],
        "amd_power",
        "AMD GPU Power",
        "W",
    ),
    // Microjoules.
    counter(
        &["gpu_energy_consumed"],
        "amd_energy_consumption",
        "AMD Energy Consumption",
        "MJ",
        1e-12,
    ),
    gauge(&["gpu_gfx_activity"], "amd_gfx_activity", "AMD GFX Activity", "%"),
    gauge(&["gpu_umc_activity"], "amd_umc_activity", "AMD UMC Activity", "%"),
    gauge(&["gpu_mma_activity"], "amd_mm_activity", "AMD MM Activity", "%"),
    gauge(&["gpu_used_vram"], "amd_memory_used", "AMD GPU Memory Used", "GB").scaled(GB_PER_MIB),
    gauge(
        &["gpu_junction_temperature", "gpu_edge_temperature"],
        "amd_temperature",
        "AMD GPU Temperature",
        "°C",
    ),
    counter(&["gpu_ecc_uncorrect"], "amd_ecc_uncorrectable", "AMD ECC Uncorrectable", "count", 1.0),
];

/// Bits of the reasons for which clocks are lower than requested.
pub(crate) const CLOCK_EVENTS: &str = "clock_event_reasons";
/// Time for which clocks were lowered because of the temperature.
pub(crate) const THERMAL_VIOLATION: &str = "thermal_violation";
/// The clock of the multiprocessors.
pub(crate) const SM_CLOCK: &str = "sm_clock";
/// The clock that was requested for them.
pub(crate) const APP_SM_CLOCK: &str = "app_sm_clock";

/// Fields that are only read for warnings.
static FOR_WARNINGS: &[Known] = &[
    gauge(
        &["DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"],
        CLOCK_EVENTS,
        "",
        "",
    ),
    counter(&["DCGM_FI_DEV_THERMAL_VIOLATION"], THERMAL_VIOLATION, "", "us", 1e-3),
    gauge(&["DCGM_FI_DEV_SM_CLOCK"], SM_CLOCK, "", "MHz"),
    gauge(&["DCGM_FI_DEV_APP_SM_CLOCK"], APP_SM_CLOCK, "", "MHz"),
];

/// The fields that are read.
#[derive(Debug, Clone)]
pub struct Fields {
    all: Vec<Field>,
    /// The field of each name in expositions, with the place of the name among its sources.
    by_source: HashMap<Arc<str>, Vec<(usize, usize)>>,
}

impl Default for Fields {
    /// Returns the fields that are always read.
    fn default() -> Self {
        let mut fields = Self { all: Vec::new(), by_source: HashMap::new() };
        let known = |vendor, is_shown| {
            move |known: &Known| Field {
                sources: known.sources.iter().map(|source| Arc::from(*source)).collect(),
                vendor,
                tag: known.tag.into(),
                title: known.title.into(),
                unit: known.unit.into(),
                scale: known.scale,
                summary: known.summary,
                is_shown,
            }
        };
        let shown = NVIDIA.iter().map(known(Vendor::Nvidia, true));
        let shown = shown.chain(AMD.iter().map(known(Vendor::Amd, true)));
        shown
            .chain(FOR_WARNINGS.iter().map(known(Vendor::Nvidia, false)))
            .for_each(|field| fields.add(field));
        fields
    }
}

impl Fields {
    fn add(&mut self, field: Field) {
        for (place, source) in field.sources.iter().enumerate() {
            let fields = self.by_source.entry(Arc::clone(source)).or_default();
            fields.push((self.all.len(), place));
        }
        self.all.push(field);
    }

    /// Iterates over the fields, in the order of files and tables.
    pub fn iter(&self) -> impl Iterator<Item = &Field> {
        self.all.iter()
    }

    /// Returns the field with this index.
    pub fn get(&self, index: usize) -> Option<&Field> {
        self.all.get(index)
    }

    /// Returns the indices of the fields called `name` in an exposition, and the place of the name
    /// among those of the field.
    pub fn named(&self, name: &str) -> &[(usize, usize)] {
        let name = name.strip_suffix("_total").unwrap_or(name);
        let found = self.by_source.get(name);
        // AMD's exporter can be configured to begin all names with `amd_`.
        let found = found.or_else(|| self.by_source.get(name.strip_prefix("amd_")?));
        found.map_or(&[], Vec::as_slice)
    }

    /// Adds the fields of a file in the format of dcgm-exporter: lines with the name of a field,
    /// its type and its help, separated by commas, and comments that begin with `#`. Fields that
    /// are already written to files are left out. The unit is in the help, as in `(in W)`. All
    /// are summarized as gauges, as AIPerf does it. Returns why each other line is left out.
    pub fn extend(&mut self, text: &str) -> Vec<FieldError> {
        let mut errors = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim().trim_start_matches('\u{feff}');
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match custom(line) {
                _ if self.all.len() >= MAX_FIELDS => {
                    errors.push(FieldError { line: number, reason: Fault::TooMany });
                    return errors;
                }
                Ok(field) => self.add_custom(field),
                Err(reason) => errors.push(FieldError { line: number, reason }),
            }
        }
        errors
    }

    fn add_custom(&mut self, field: Field) {
        let is_known = |known: &Field| {
            known.is_shown && (known.sources.contains(&field.sources[0]) || known.tag == field.tag)
        };
        if !self.all.iter().any(is_known) {
            self.add(field);
        }
    }
}

/// Why a line of a file of fields is left out.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line} {reason}; the line is ignored")]
pub struct FieldError {
    /// The number of the line, from 1.
    pub line: usize,
    reason: Fault,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
enum Fault {
    #[error("does not have the form `DCGM_FI_…, gauge or counter, help`")]
    Parts,
    #[error("does not name a field of DCGM, which begins with DCGM_FI_")]
    Name,
    #[error("has a type that is neither gauge nor counter")]
    Type,
    #[error("and the lines after it are too many; at most {} fields are read", MAX_FIELDS)]
    TooMany,
}

/// Parses a line of a file of fields.
fn custom(line: &str) -> Result<Field, Fault> {
    let mut parts = line.splitn(3, ',').map(str::trim);
    let (Some(source), Some(kind), Some(help)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(Fault::Parts);
    };
    let suffix = source.strip_prefix("DCGM_FI_").ok_or(Fault::Name)?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if suffix.is_empty() || !suffix.chars().all(is_name) {
        return Err(Fault::Name);
    }
    if !["gauge", "counter"].contains(&kind) {
        return Err(Fault::Type);
    }
    let short = suffix.strip_prefix("DEV_").or_else(|| suffix.strip_prefix("PROF_"));
    let tag = format!("nvidia_{}", short.unwrap_or(source).to_lowercase());
    let name = help.split('(').next().unwrap_or_default().trim();
    let title = if name.is_empty() { tag.replace('_', " ") } else { name.to_owned() };
    Ok(Field {
        sources: vec![source.into()],
        vendor: Vendor::Nvidia,
        tag: tag.into(),
        title: title_case(&title).into(),
        unit: unit(help).into(),
        scale: 1.0,
        summary: Summary::Distribution,
        is_shown: true,
    })
}

/// Returns the unit that the help has in parentheses, as in `(in W)`; `count` without a known one.
fn unit(help: &str) -> &'static str {
    let lower = help.to_lowercase();
    let unit = lower.split("(in ").nth(1).and_then(|rest| rest.split([')', ' ']).next());
    match unit.unwrap_or_default() {
        "w" => "W",
        "%" | "percent" => "%",
        "gb" | "gib" => "GB",
        "mb" | "mib" => "MB",
        "kb" | "kib" => "KB",
        "mhz" => "MHz",
        "ghz" => "GHz",
        "c" | "°c" | "celsius" => "°C",
        "us" => "us",
        "ms" => "ms",
        "s" => "sec",
        "mj" => "MJ",
        "j" => "J",
        _ => "count",
    }
}

/// Capitalizes each word, and all letters of abbreviations.
fn title_case(text: &str) -> String {
    const ABBREVIATIONS: [&str; 10] =
        ["gpu", "xid", "sm", "nvlink", "pci", "pcie", "cpu", "ram", "vram", "ecc"];
    let word = |word: &str| {
        let lower = word.to_lowercase();
        if ABBREVIATIONS.contains(&lower.as_str()) {
            return lower.to_uppercase();
        }
        let mut letters = lower.chars();
        let first = letters.next().map(|first| first.to_uppercase().to_string());
        first.unwrap_or_default() + letters.as_str()
    };
    text.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}
