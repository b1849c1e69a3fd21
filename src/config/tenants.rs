//! The file of tenants (`--tenants`): who shares the servers, with which load.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_norway::Value as Yaml;

use base::input::{self, yaml};
use base::redact;
use base::setting;
use client::schedule::Tenant as Traffic;
use client::schedule::config::ArrivalPattern;
use client::schedule::weibull_shape;
use dataset::Length;
use measure::metrics::metric::Objective;
use measure::metrics::parse_objectives;

/// Maximum number of tenants, each of which has a group of results.
const MAX_TENANTS: usize = 64;

/// A tenant.
#[derive(Clone, PartialEq, Serialize)]
pub struct Tenant {
    /// Its name and its part of the load.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// Headers of its requests, besides those of all requests.
    #[serde(serialize_with = "super::shown_headers")]
    pub headers: Vec<(String, String)>,
    /// Its input lengths; `None` is those of the dataset.
    pub input_tokens: Option<Length>,
    /// Its requested output lengths; `None` is those of the dataset.
    pub output_tokens: Option<Length>,
    /// Objectives of its requests; empty for those of the run.
    pub objectives: Vec<Objective>,
    /// Directory of a run in which it was alone.
    #[serde(serialize_with = "setting::optional_path")]
    pub alone: Option<PathBuf>,
    /// Mean request latency of that run, in milliseconds.
    pub alone_latency_ms: Option<f64>,
}

impl fmt::Debug for Tenant {
    /// Does not show headers that bear secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tenant").field(&serde_json::to_value(self)).finish()
    }
}

/// The tenants of a file, and the load of all together if the file has it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tenants {
    /// In the order of the file.
    pub tenants: Vec<Tenant>,
    /// Requests per second of all together.
    pub rate: Option<f64>,
    /// Number of slots of all together.
    pub concurrency: Option<u64>,
}

/// The content of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    tenants: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    share: Option<f64>,
    rate: Option<f64>,
    concurrency: Option<u64>,
    arrivals: Option<Process>,
    cv: Option<f64>,
    #[serde(default)]
    headers: serde_norway::Mapping,
    isl: Option<Yaml>,
    osl: Option<Yaml>,
    goodput: Option<String>,
    alone: Option<PathBuf>,
}

/// The names of arrival processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Process {
    Constant,
    Poisson,
    Gamma,
    Weibull,
}

impl Tenants {
    /// Reads the file at `path`, in YAML or JSON. The directories of runs that it names are relative
    /// to it.
    ///
    /// # Errors
    ///
    /// Fails with the reason if the file cannot be read, or what it says is not possible.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text =
            input::text(path, input::MAX_SETTINGS_BYTES).map_err(|error| error.to_string())?;
        let mut tenants = Self::parse(&text)?;
        let beside = path.parent().unwrap_or(Path::new(""));
        for tenant in &mut tenants.tenants {
            if let Some(directory) = &tenant.alone {
                let of_tenant = |why: String| format!("tenant {:?}: {why}", tenant.traffic.name);
                tenant.alone_latency_ms =
                    Some(latency(&beside.join(directory)).map_err(of_tenant)?);
            }
        }
        Ok(tenants)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let Document { tenants: entries } =
            serde_norway::from_value(yaml::parsed(text)?).map_err(|error| error.to_string())?;
        if entries.is_empty() || entries.len() > MAX_TENANTS {
            return Err(format!("expected 1 to {MAX_TENANTS} tenants, got {}", entries.len()));
        }
        let given = |count: usize, name: &str| match count {
            0 => Ok(false),
            all if all == entries.len() => Ok(true),
            _ => Err(format!("give the {name} of all tenants or of none")),
        };
        let count = |has: fn(&Entry) -> bool| entries.iter().filter(|entry| has(entry)).count();
        let has_rates = given(count(|entry| entry.rate.is_some()), "rate")?;
        let has_concurrency = given(count(|entry| entry.concurrency.is_some()), "concurrency")?;
        let has_shares = given(count(|entry| entry.share.is_some()), "share")?;
        if has_rates && has_concurrency {
            return Err("tenants have either a rate or a concurrency; remove one of them".into());
        }
        let own = |entry: &Entry| entry.rate.or(entry.concurrency.map(|slots| slots as f64));
        for entry in &entries {
            let numbers = [entry.share, own(entry)];
            if numbers.into_iter().flatten().any(|number| !(number > 0.0 && number < 1e9)) {
                let why = "the share, the rate and the concurrency must be above 0";
                return Err(format!("tenant {:?}: {why}", entry.name));
            }
        }
        let total = |of: &dyn Fn(&Entry) -> f64| entries.iter().map(of).sum::<f64>();
        let share = |entry: &Entry| entry.share.unwrap_or(1.0);
        let load = |entry: &Entry| own(entry).unwrap_or_else(|| share(entry));
        // Without shares, each is entitled to its part of the load.
        let entitled = |entry: &Entry| if has_shares { share(entry) } else { load(entry) };
        let (loads, shares) = (total(&load), total(&entitled));
        let mut tenants: Vec<Tenant> = Vec::new();
        for entry in &entries {
            let (load, share) = (load(entry) / loads, entitled(entry) / shares);
            let tenant = entry
                .tenant(load, share)
                .map_err(|why| format!("tenant {:?}: {why}", entry.name))?;
            if tenants.iter().any(|other| other.traffic.name == tenant.traffic.name) {
                return Err(format!("there are two tenants named {:?}", entry.name));
            }
            tenants.push(tenant);
        }
        let slots = entries.iter().filter_map(|entry| entry.concurrency).sum();
        Ok(Self {
            tenants,
            rate: has_rates.then_some(loads),
            concurrency: has_concurrency.then_some(slots),
        })
    }
}

impl Entry {
    fn tenant(&self, load: f64, share: f64) -> Result<Tenant, String> {
        if !setting::is_name(&self.name) {
            return Err(format!(
                "the name must have 1 to {} letters, digits, `-`, `_` and `.`",
                setting::MAX_NAME
            ));
        }
        let length = |name: &str, value: &Option<Yaml>| {
            let Some(value) = value else { return Ok(None) };
            let text = scalar(value).ok_or_else(|| format!("{name} must be a length"))?;
            Length::parse(&text).map(Some).map_err(|why| format!("{name}: {why}"))
        };
        let headers = self.headers.iter().map(|(name, value)| {
            // The value may be a secret, so the message does not repeat it.
            let pair = scalar(name).zip(scalar(value));
            pair.ok_or_else(|| "headers must be texts by name".to_owned())
        });
        let objectives = self.goodput.as_deref().map(parse_objectives).transpose();
        Ok(Tenant {
            traffic: Traffic { name: self.name.clone(), share, load, arrivals: self.arrivals()? },
            headers: headers.collect::<Result<_, _>>()?,
            input_tokens: length("isl", &self.isl)?,
            output_tokens: length("osl", &self.osl)?,
            objectives: objectives.map_err(|error| error.to_string())?.unwrap_or_default(),
            alone: self.alone.clone(),
            alone_latency_ms: None,
        })
    }

    /// Returns the distribution of arrivals by its name and the coefficient of variation of its
    /// intervals.
    fn arrivals(&self) -> Result<Option<ArrivalPattern>, String> {
        let cv = match self.cv {
            Some(cv) if !(0.05..=20.0).contains(&cv) => {
                return Err(format!("the cv must be between 0.05 and 20, got {cv}"));
            }
            cv => cv,
        };
        Ok(Some(match (self.arrivals, cv) {
            (None, None) => return Ok(None),
            (Some(Process::Constant), None) => ArrivalPattern::Constant,
            (Some(Process::Poisson), None) => ArrivalPattern::Poisson,
            (Some(Process::Constant | Process::Poisson), Some(_)) => {
                return Err("a cv applies to the arrivals gamma and weibull".to_owned());
            }
            (Some(Process::Gamma | Process::Weibull), None) => {
                return Err("the arrivals gamma and weibull require a cv".to_owned());
            }
            // The variance of a gamma distribution with mean 1 is the inverse of its shape.
            (None | Some(Process::Gamma), Some(cv)) => {
                ArrivalPattern::Gamma { shape: 1.0 / (cv * cv) }
            }
            (Some(Process::Weibull), Some(cv)) => {
                ArrivalPattern::Weibull { shape: weibull_shape(cv) }
            }
        }))
    }
}

/// Returns a number or a text as a text.
fn scalar(value: &Yaml) -> Option<String> {
    match value {
        Yaml::String(text) => Some(text.clone()),
        Yaml::Number(number) => Some(number.to_string()),
        Yaml::Bool(it) => Some(it.to_string()),
        _ => None,
    }
}

/// Returns the mean request latency of the run in `directory`, in milliseconds.
fn latency(directory: &Path) -> Result<f64, String> {
    let path = directory.join("profile_export_aiperf.json");
    let shown = redact::printable(&path.display().to_string());
    let text = input::text(&path, input::MAX_PART_BYTES);
    let text = text.map_err(|error| format!("{shown}: {error}"))?;
    let summary: Value =
        serde_json::from_str(&text).map_err(|error| format!("{shown}: {error}"))?;
    let mean = summary["request_latency"]["avg"].as_f64().filter(|mean| *mean > 0.0);
    mean.ok_or_else(|| format!("{shown} does not have a request latency"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_the_load_and_shares_sum_to_one() {
        let found = Tenants::parse(
            "tenants:\n- {name: a, rate: 6, share: 1, cv: 2}\n- {name: b, rate: 2, share: 1}\n",
        )
        .unwrap();
        assert_eq!((found.rate, found.concurrency), (Some(8.0), None));
        let [a, b] = found.tenants.as_slice() else { panic!("{found:?}") };
        assert_eq!((a.traffic.load, a.traffic.share), (0.75, 0.5));
        assert_eq!((b.traffic.load, b.traffic.share), (0.25, 0.5));
        // The variance is 4, and the shape its inverse.
        assert_eq!(a.traffic.arrivals, Some(ArrivalPattern::Gamma { shape: 0.25 }));
        let json = r#"{"tenants": [{"name": "a", "share": 3}, {"name": "b", "share": 1}]}"#;
        let found = Tenants::parse(json).unwrap();
        assert_eq!((found.tenants[0].traffic.load, found.rate), (0.75, None));
    }

    #[test]
    fn lengths_headers_and_objectives_are_read() {
        let text = "tenants:\n- name: a\n  concurrency: 3\n  isl: lognormal:mean=512,median=192\n  \
                    osl: 64\n  headers: {X-Tenant: a, X-Level: 3}\n  goodput: ttft<=200ms\n";
        let found = Tenants::parse(text).unwrap();
        assert_eq!(found.concurrency, Some(3));
        let [a] = found.tenants.as_slice() else { panic!("{found:?}") };
        assert_eq!(a.input_tokens, Some(Length::LogNormal { mean: 512.0, median: 192.0 }));
        assert_eq!(a.output_tokens, Some(Length::exactly(64.0)));
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(a.headers, [pair("X-Tenant", "a"), pair("X-Level", "3")]);
        assert_eq!(a.objectives[0].threshold, 200.0);
    }

    #[test]
    fn secrets_of_headers_are_not_serialized() {
        let text = "tenants: [{name: a, headers: {Authorization: Bearer abcdef}}]";
        let found = Tenants::parse(text).unwrap();
        assert!(!serde_json::to_string(&found.tenants).unwrap().contains("abcdef"));
        assert!(!format!("{found:?}").contains("abcdef"));
    }

    #[test]
    fn faults_are_named() {
        for (text, fault) in [
            ("tenants: []", "expected 1 to 64 tenants"),
            ("clients: []", "unknown field"),
            ("tenants: [{name: a, speed: 3}]", "unknown field"),
            ("tenants: [{name: a, rate: 1}, {name: b}]", "the rate of all tenants or of none"),
            ("tenants: [{name: a, rate: 1, concurrency: 1}]", "either a rate or a concurrency"),
            ("tenants: [{name: a}, {name: a}]", "two tenants named \"a\""),
            ("tenants: [{name: a, share: 0}]", "must be above 0"),
            ("tenants: [{name: ' '}]", "the name must have 1 to 64 letters"),
            ("tenants: [{name: \"a\\e[31m\"}]", "the name must have 1 to 64 letters"),
            (
                format!("tenants: [{{name: {}}}]", "a".repeat(65)).as_str(),
                "the name must have 1 to 64",
            ),
            ("tenants: [{name: a, cv: 0}]", "the cv must be between"),
            ("tenants: [{name: a, arrivals: poisson, cv: 2}]", "a cv applies"),
            ("tenants: [{name: a, arrivals: weibull}]", "require a cv"),
            ("tenants: [{name: a, isl: x}]", "isl: expected a number"),
            ("tenants: [{name: a, goodput: x}]", "not a valid objective"),
            ("tenants: [{name: a, headers: {b: [1]}}]", "headers must be texts"),
        ] {
            let error = Tenants::parse(text).unwrap_err();
            assert!(error.contains(fault), "{text}: {error}");
        }
    }
}
