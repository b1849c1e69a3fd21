//! The environment of a run: program, machine, tokenizer, servers.

use std::collections::BTreeMap;
use std::thread;

use serde::{Deserialize, Serialize};

use base::environment::Environment;
use base::platform::host;
use base::platform::machine::{Ends, Scaling};
use base::platform::machine_files::Machine;
use base::redact::ShownUrl;
use client::record::RequestRecord;
use client::server_family::Families;
use measure::server_metrics::report::{MetricReport, ServerMetrics};
use telemetry;
use tokens::tokenizer::TokenCounter;

/// The environment of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Provenance {
    pub program: Program,
    /// The machine that generated the load.
    pub host: Host,
    /// The tokenizer that counted tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<Tokenizer>,
    /// The servers that responded; known afterwards.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<Server>,
    /// The CI job that the run was part of, by the names of OpenTelemetry's attributes `cicd.…` and
    /// `vcs.…`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ci: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Program {
    pub name: String,
    pub version: String,
    /// The commit of a release build, if known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub commit: Option<String>,
}

/// A machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Host {
    /// Its name in the network.
    pub name: String,
    /// The operating system, as it names itself.
    pub os: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Architecture of the processor, as Rust names it.
    pub arch: String,
    /// Model of the processor, if the system reports it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpu: Option<String>,
    /// Number of cores that the program may use.
    pub cores: usize,
    /// The numbers of these cores, such as `0-3,8`, if the system reports them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub core_list: Option<String>,
    /// The NUMA nodes of these cores.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub numa_nodes: Vec<usize>,
    /// CPU limit of the program's control group in thousandths of a core, if it has one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpu_limit_millicores: Option<u64>,
    /// How the frequency of the cores is controlled; absent if the system does not control it, as in
    /// most virtual machines.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub frequency: Option<FrequencyControl>,
    /// Main memory in bytes, if the system reports it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub memory_bytes: Option<u64>,
}

/// How the frequency of a processor is controlled.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FrequencyControl {
    /// The policy, such as `performance`.
    pub governor: String,
    /// The driver, such as `intel_pstate`.
    pub driver: String,
    /// Lowest frequency in MHz.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub min_mhz: Option<u64>,
    /// Highest frequency in MHz.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_mhz: Option<u64>,
}

impl From<Scaling> for FrequencyControl {
    fn from(scaling: Scaling) -> Self {
        let Scaling { governor, driver, min_mhz, max_mhz } = scaling;
        Self { governor, driver, min_mhz, max_mhz }
    }
}

/// A tokenizer's vocabulary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Tokenizer {
    /// `builtin`, a path, or a name on the hub.
    pub name: String,
    /// SHA-256 of its `tokenizer.json`, or of the embedded vocabulary, in hexadecimal.
    pub sha256: String,
}

/// A server's description of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Server {
    /// URL of the requests, without credentials.
    pub url: ShownUrl,
    /// Name of the software, from the names of its metrics or else from its headers.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
    /// Its version, if a metric or the header contains it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub version: Option<String>,
}

impl Provenance {
    /// Returns the provenance of a run on this machine, before any server has responded, by a program
    /// that was built from `commit`.
    #[must_use]
    pub fn here(commit: Option<&str>, counter: Option<&TokenCounter>) -> Self {
        let tokenizer = counter.map(|counter| Tokenizer {
            name: counter.name().to_owned(),
            sha256: counter.sha256().to_owned(),
        });
        Self {
            program: Program::this(commit),
            host: Host::this(),
            tokenizer,
            servers: Vec::new(),
            ci: telemetry::ci_job(Environment::process()),
        }
    }
}

impl Program {
    fn this(commit: Option<&str>) -> Self {
        Self {
            name: "aiperf".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: commit.map(str::to_owned),
        }
    }
}

impl Host {
    /// Returns the current machine.
    #[must_use]
    pub fn this() -> Self {
        let machine = Machine::this();
        Self {
            name: host::name(),
            os: host::system(),
            kernel: host::kernel(),
            arch: std::env::consts::ARCH.to_owned(),
            cpu: host::processor(),
            cores: thread::available_parallelism().map_or(1, usize::from),
            core_list: machine.core_list(),
            numa_nodes: machine.numa_nodes(),
            cpu_limit_millicores: machine.cpu_limit_millicores(),
            frequency: machine.scaling().map(FrequencyControl::from),
            memory_bytes: host::memory_bytes(),
        }
    }
}

impl Host {
    /// Describes the cores that the program may use: their numbers, nodes, limit and frequency.
    pub(crate) fn about_cores(&self) -> Vec<String> {
        let nodes = match self.numa_nodes.as_slice() {
            [] => None,
            [only] => Some(format!("NUMA node {only}")),
            several => {
                let numbers: Vec<String> = several.iter().map(ToString::to_string).collect();
                Some(format!("NUMA nodes {}", numbers.join(", ")))
            }
        };
        let limit = self
            .cpu_limit_millicores
            .map(|most| format!("CPU limit {} cores", most as f64 / 1000.0));
        let frequency = self.frequency.as_ref().map(|control| {
            let FrequencyControl { governor, driver, min_mhz, max_mhz } = control;
            let range = min_mhz.zip(*max_mhz).map(|(min, max)| format!(", {min} to {max} MHz"));
            format!("governor {governor} ({driver}{})", range.unwrap_or_default())
        });
        [self.core_list.clone(), nodes, limit, frequency].into_iter().flatten().collect()
    }
}

/// Web servers that frameworks of LLM servers use, whose name does not identify the server.
const LIBRARIES: [&str; 4] = ["uvicorn", "gunicorn", "hypercorn", "granian"];

impl Server {
    /// Returns the server at `url`, whose responses had these headers.
    #[must_use]
    pub(crate) fn answering(url: &ShownUrl, headers: &[(String, String)]) -> Self {
        let find = |name: &str| {
            let mut named = headers.iter().filter(|(have, _)| have.eq_ignore_ascii_case(name));
            named.next().map(|(_, value)| value.as_str())
        };
        // A gateway passes on, or sets, the `server` header of what it was built with.
        let of_gateway = find("x-litellm-version").map(|version| format!("litellm/{version}"));
        let is_library = |header: &&str| !LIBRARIES.iter().any(|name| header.starts_with(name));
        let header = of_gateway.as_deref().or_else(|| find("server").filter(is_library));
        // `name/version (comment) …`, RFC 9110, 10.2.4.
        let product = header.and_then(|header| header.split_whitespace().next());
        let (name, version) = product.map_or((None, None), |product| {
            let (name, version) = product.split_once('/').unwrap_or((product, ""));
            (Some(name), Some(version).filter(|version| !version.is_empty()))
        });
        Self {
            url: url.clone(),
            name: name.map(str::to_owned),
            version: version.map(str::to_owned),
        }
    }

    /// Adds what the metrics of the same host and port reveal.
    #[must_use]
    pub(crate) fn known_by(self, metrics: Option<&ServerMetrics>) -> Self {
        let Some(metrics) = metrics else { return self };
        let own = |metric: &&MetricReport| {
            metric
                .series
                .iter()
                .any(|series| authority(&series.endpoint_url) == authority(&self.url))
        };
        let own: Vec<&MetricReport> = metrics.report.metrics.iter().filter(own).collect();
        let has = |prefix: &str| own.iter().any(|metric| metric.name.starts_with(prefix));
        let found = Families::found(|family| has(family.prefix));
        let Some(family) = found.outermost().first() else { return self };
        let built = own.iter().filter(|metric| metric.name.ends_with("build_info"));
        let version = built.flat_map(|metric| &metric.series).find_map(|series| {
            let (_, version) = series.labels.iter().find(|(name, _)| **name == *"version")?;
            Some(version.to_string())
        });
        Self { name: Some(family.name.to_owned()), version, ..self }
    }
}

/// The servers that have responded.
#[derive(Debug, Default)]
pub struct Responders(Vec<Responder>);

/// The first response of a server.
#[derive(Debug)]
struct Responder {
    url: ShownUrl,
    /// The server as its headers name it.
    server: Server,
    /// The ends of its connection.
    ends: Option<Ends>,
}

impl Responders {
    /// Adds the server of `record`, if it is a new one that has responded.
    pub fn observe(&mut self, record: &RequestRecord) {
        if record.status.is_none() || self.0.iter().any(|it| it.url == record.url) {
            return;
        }
        let trace = &record.trace;
        let headers = &trace.response_headers;
        let ends = trace.local_addr.zip(trace.remote_addr);
        self.0.push(Responder {
            url: record.url.clone(),
            server: Server::answering(&record.url, headers),
            ends: ends.map(|(local, remote)| Ends { local: local.ip(), remote: remote.ip() }),
        });
    }

    /// Returns the ends of a connection to each server.
    #[must_use]
    pub fn ends(&self) -> Vec<Ends> {
        self.0.iter().filter_map(|it| it.ends).collect()
    }

    /// Returns the servers, with what their `metrics` reveal.
    #[must_use]
    pub fn servers(&self, metrics: Option<&ServerMetrics>) -> Vec<Server> {
        self.0.iter().map(|it| it.server.clone().known_by(metrics)).collect()
    }
}

/// Returns the host and port of a URL.
fn authority(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_header_names_product_and_version() {
        let framework = |headers: &[(&str, &str)]| {
            let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            let headers: Vec<_> = headers.iter().map(owned).collect();
            let server = Server::answering(&"http://h:1/v1".into(), &headers);
            (server.name, server.version)
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(framework(&[("Server", "llama.cpp")]), (text("llama.cpp"), None));
        assert_eq!(
            framework(&[("server", "nginx/1.27.0 (Debian)")]),
            (text("nginx"), text("1.27.0"))
        );
        assert_eq!(framework(&[("server", "  ")]), (None, None));
        assert_eq!(framework(&[]), (None, None));
        assert_eq!(framework(&[("server", "uvicorn")]), (None, None));
        let lite_llm = [("server", "uvicorn"), ("x-litellm-version", "1.80.5")];
        assert_eq!(framework(&lite_llm), (text("litellm"), text("1.80.5")));
    }

    #[test]
    fn an_authority_is_that_of_the_url() {
        assert_eq!(authority("https://h:1/metrics?x"), "h:1");
        assert_eq!(authority("h:1"), "h:1");
    }

    #[test]
    fn cores_are_described_as_far_as_they_are_known() {
        let host = Host {
            core_list: Some("0-3,8".to_owned()),
            numa_nodes: vec![0, 1],
            cpu_limit_millicores: Some(1500),
            frequency: Some(FrequencyControl {
                governor: "powersave".to_owned(),
                driver: "intel_pstate".to_owned(),
                min_mhz: Some(800),
                max_mhz: Some(3600),
            }),
            ..Host::default()
        };
        let expected = [
            "0-3,8",
            "NUMA nodes 0, 1",
            "CPU limit 1.5 cores",
            "governor powersave (intel_pstate, 800 to 3600 MHz)",
        ];
        assert_eq!(host.about_cores(), expected);
        assert!(Host::default().about_cores().is_empty());
        let again: Host = serde_json::from_str(&serde_json::to_string(&host).unwrap()).unwrap();
        assert_eq!(again, host);
    }

    #[test]
    fn this_machine_is_known() {
        let host = Host::this();
        assert!(host.cores >= 1 && !host.name.is_empty() && !host.kernel.is_empty());
        assert_eq!(host.arch, std::env::consts::ARCH);
    }
}
