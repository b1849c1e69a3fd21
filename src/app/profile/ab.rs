//! Two servers measured side by side (`aiperf ab`): short blocks of load, one server after the other
//! and in balanced random order, so that whatever the machine does happens to both.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Map, Value};
use uuid::Uuid;

use base::column::Store;
use base::interrupt::Interrupt;
use base::platform::replace;
use dataset::Seed;
use measure::judge::Comparison;
use measure::judge::compare::{Models, Plan, Requests, Trial, differences, different_loads};
use measure::judge::paired::{Decision, Look, Paired};
use measure::metrics::Verdict;
use measure::multi_run::{Failure, Member};
use results::api::Listener;
use results::artifacts::Claim;
use results::artifacts::layout::Layout;
use results::follow::{Delivered, Follower as _};
use results::report;
use results::terminal::Stderr;
use tokens::tokenizer::TokenCounter;

use super::{Run, RunInputs, claim, counter, raise_file_limit};
use crate::app::audience::Audience;
use crate::app::compare::{self, described, trial};
use crate::app::outcome::Outcome;
use crate::app::output::Output;
use crate::app::{gates, interrupt, page};
use crate::cli::{Ab, AbSide, CompareFormat};
use crate::config::RunConfig;
use crate::server_control::Launched;

/// Name of the file with the comparison.
const FILE: &str = "ab.json";

/// Time in which a command that cannot start a server usually ends.
const START: Duration = Duration::from_millis(500);

/// Names of the sides, and of their directories.
const NAMES: [&str; 2] = ["a", "b"];

/// Measures both sides of `asked` in blocks until their difference is told, and writes the comparison
/// to `out`.
pub(in crate::app) fn ab(asked: Ab, out: &mut impl Write) -> anyhow::Result<Outcome> {
    let Ab { sides, pairs, comparing, page } = asked;
    if let Some(why) = different_sides(&sides)?
        && !comparing.allow_different
    {
        match comparing.format {
            CompareFormat::Json => writeln!(Stderr, "{why}")?,
            CompareFormat::Table | CompareFormat::Markdown => writeln!(out, "{why}")?,
        }
        return Ok(Outcome::Unknown);
    }
    raise_file_limit()?;
    gates::check(comparing.junit.as_deref())?;
    page::check(page.as_ref())?;
    let listener = Listener::bind(&sides[0].config.api)?;
    let mut blocks = Blocks::prepare(sides, pairs, comparing.plan(1), listener)?;
    let audience = Arc::clone(&blocks.audience);
    let mut out = Output::new(out).beside(audience.view());
    audience.view().open();
    let measured = blocks.measure(&mut out);
    audience.view().close();
    let whole = measured?;
    let comparisons = [vec![blocks.comparison()]];
    let path = blocks.directory.join(FILE);
    let document = compare::document(&comparisons.iter().flatten().collect::<Vec<_>>())?;
    replace::replace(&path, |file| file.write_all(document.as_bytes()))
        .with_context(|| format!("cannot write {}", path.display()))?;
    let page = page.map(|page| page.or(&Layout::new(&blocks.directory, None).page));
    let write = |page| report::write_comparison(page, &comparisons, &blocks.as_sides());
    let page = page.map(write).transpose();
    audience.followers().delivered(&Delivered {
        directory: &blocks.directory,
        files: &std::iter::once(path).chain(page.iter().flatten().cloned()).collect(),
        is_partial: !whole,
    });
    let outcome = compare::deliver(&comparisons, &comparing, &mut out);
    let outcome = outcome.and_then(|outcome| Ok(page.map(|_| outcome)?));
    let outcome = if whole { outcome } else { outcome.map(|_| Outcome::Interrupted) };
    out.finish(outcome)
}

/// Returns in what the loads of the sides differ, and what can be done; `None` if they do not. Models and
/// endpoints are what is compared.
fn different_sides([a, b]: &[AbSide; 2]) -> anyhow::Result<Option<String>> {
    let [a, b] = [serde_json::to_value(&a.config)?, serde_json::to_value(&b.config)?];
    let different = different_loads(&a, &b, Models::Compared);
    Ok((!different.is_empty()).then(|| {
        format!(
            "these runs have different loads: {}; nothing was measured, since the difference would not be \
             that of the servers; --allow-different measures and judges them anyway",
            different.join(", ")
        )
    }))
}

/// What the blocks share.
struct Blocks {
    sides: [Side; 2],
    /// The seed from which those of the pairs are derived.
    seed: Seed,
    paired: Paired,
    pairs: u64,
    plan: Plan,
    directory: PathBuf,
    interrupt: Interrupt,
    audience: Arc<Audience>,
    /// The directory that contains the directories of all blocks.
    _claim: Claim,
}

/// A side with its blocks so far.
struct Side {
    config: RunConfig,
    counter: Arc<TokenCounter>,
    /// The group that its blocks are runs of.
    group: Uuid,
    blocks: Vec<Trial>,
    /// The facts about the first block.
    about: Value,
    /// Why nothing can be concluded from its blocks, if one failed.
    failure: Option<String>,
    /// Number of blocks in which the client did not keep up.
    invalid: usize,
    server: Option<Launched>,
}

impl Side {
    fn prepare(
        side: AbSide,
        name: &str,
        directory: &std::path::Path,
        pairs: u64,
    ) -> anyhow::Result<Self> {
        let AbSide { mut config, start } = side;
        config.artifacts.directory = directory.join(name);
        config.artifacts.has_default_directory = false;
        config.multi_run.runs = pairs;
        config.multi_run.repeats_warmup = true;
        config.multi_run.varies_seed = true;
        std::fs::create_dir_all(&config.artifacts.directory)
            .with_context(|| format!("cannot create {}", config.artifacts.directory.display()))?;
        let log = config.artifacts.directory.join("server.log");
        let launch = |command: String| {
            Launched::start(&command, &log).with_context(|| format!("cannot start server {name}"))
        };
        Ok(Self {
            counter: Arc::new(counter(&config)?),
            config: *config,
            group: Uuid::new_v4(),
            blocks: Vec::new(),
            about: Value::Null,
            failure: None,
            invalid: 0,
            server: start.map(launch).transpose()?,
        })
    }

    /// Returns why nothing can be concluded from its blocks, if there is a reason. A client that did
    /// not keep up now and then did so on both sides; one that seldom did has measured itself.
    fn obstacle(&self) -> Option<String> {
        let invalid = (2 * self.invalid > self.blocks.len()).then(|| {
            format!("client health is invalid in {} of {} blocks", self.invalid, self.blocks.len())
        });
        self.failure.clone().or(invalid)
    }

    /// Returns an error if its server has ended, or ends within `patience`.
    fn check_server(&mut self, name: &str, patience: Duration) -> anyhow::Result<()> {
        let Some(server) = &mut self.server else { return Ok(()) };
        let log = self.config.artifacts.directory.join("server.log");
        let what = || format!("server {name} is not running; see {}", log.display());
        server.check(patience).with_context(what)
    }
}

impl Blocks {
    fn prepare(
        mut sides: [AbSide; 2],
        pairs: u64,
        plan: Plan,
        listener: Option<Listener>,
    ) -> anyhow::Result<Self> {
        // Both sides write into one directory.
        let claim = claim(&mut sides[0].config)?;
        let directory = sides[0].config.artifacts.directory.clone();
        // Until here there is nothing to drain or write, so a signal ends the process.
        let interrupter = interrupt::listen()?;
        let interrupt = interrupter.interrupt();
        let audience = Arc::new(Audience::start(&sides[0].config, listener, &interrupter)?);
        let [a, b] = sides;
        let given = a.config.dataset.random_seed.or(b.config.dataset.random_seed);
        let seed = Seed::or_random(given);
        if have_same_cache(&a.config, &b.config) {
            // Nothing is logged before the first block. An error means that the terminal is gone.
            let _ = writeln!(
                Stderr,
                "warning: both sides send the same prompts to the same server, which may have them in its prefix \
                 cache in the second block of a pair; empty it before each block with --reset-kv-cache"
            );
        }
        let sides = [
            Side::prepare(a, NAMES[0], &directory, pairs)?,
            Side::prepare(b, NAMES[1], &directory, pairs)?,
        ];
        let paired = Paired::new(plan.clone(), usize::try_from(pairs)?);
        Ok(Self { sides, seed, paired, pairs, plan, directory, interrupt, audience, _claim: claim })
    }

    /// Measures pairs of blocks until their difference is told; returns false if the user interrupted
    /// it.
    fn measure(&mut self, out: &mut Output<'_>) -> anyhow::Result<bool> {
        let mut order = Order::new();
        for pair in 0..self.pairs {
            for side in order.next_pair() {
                if !self.block(side, pair)? {
                    return Ok(false);
                }
            }
            if !self.paired.is_look(usize::try_from(pair + 1)?) {
                continue;
            }
            let Look { decision, .. } = self.look();
            let state = match decision {
                Decision::Decided => "the comparison is decided".to_owned(),
                Decision::Continue(Some(all)) => format!("about {all} pairs would probably do"),
                Decision::Continue(None) => "undecided".to_owned(),
            };
            out.say(&format!("pair {} of at most {}: {state}\n", pair + 1, self.pairs));
            if decision == Decision::Decided {
                break;
            }
        }
        Ok(true)
    }

    /// Measures a block of a side; returns false if the user interrupted it.
    fn block(&mut self, at: usize, pair: u64) -> anyhow::Result<bool> {
        if self.interrupt.is_draining() {
            return Ok(false);
        }
        let name = NAMES[at];
        let side = &mut self.sides[at];
        side.check_server(name, if pair == 0 { START } else { Duration::ZERO })?;
        let member = Member::new(side.group, pair, None);
        let place = side.config.artifacts.directory.join(Member::place(pair));
        // Both blocks of a pair have the same prompts, and no other pair has them, since a server
        // would find them in its cache.
        let mut config = side.config.run_of_many(member, place, self.seed.0);
        let inputs = RunInputs::with(&mut config, Arc::clone(&side.counter))?;
        let mut run = Run::new(config, inputs)?;
        run.name = Some(format!("Pair {} of {}: {name}", pair + 1, self.pairs));
        if let Err(error) = run.ready_servers(&self.interrupt) {
            // That it has ended is the better explanation.
            side.check_server(name, Duration::ZERO)?;
            return Err(error);
        }
        let followers = self.audience.followers();
        let measured = run.measure(&self.interrupt, &followers)?;
        let mut ending = measured.conclude();
        ending.tell(&followers, &self.interrupt);
        ending.files?;
        let (report, values) = (ending.report, ending.values);
        let failure = report.failure();
        if failure.as_ref().is_some_and(Failure::is_cancelled) {
            return Ok(false);
        }
        if side.about.is_null() {
            side.about = described(&report);
        }
        let health = report.outcome.client_health.as_ref();
        let is_invalid = health.and_then(|health| health.verdict) == Some(Verdict::Invalid);
        side.invalid += usize::from(is_invalid);
        let why = failure.map(|why| format!("{name}, block {}: {}", pair + 1, why.message()));
        side.failure = side.failure.take().or(why);
        let is_closed = report.outcome.load.slot_seconds.is_some();
        let mut block = trial(report, Requests::new(&self.plan, &Store::default()));
        // A block is short, so that what is in flight at its end matters.
        block.long_run = Some(values.by_latency()).filter(|_| is_closed);
        side.blocks.push(block);
        Ok(true)
    }

    /// Looks at the pairs so far.
    fn look(&mut self) -> Look {
        let [a, b] = &self.sides;
        let pairs: Vec<[&Trial; 2]> = a.blocks.iter().zip(&b.blocks).map(|(a, b)| [a, b]).collect();
        self.paired.look(&pairs, a.obstacle().or_else(|| b.obstacle()))
    }

    /// Returns the runs of both sides for the page.
    fn as_sides(&self) -> [report::Side; 2] {
        [0, 1].map(|at| {
            let Side { config, blocks, .. } = &self.sides[at];
            let directory = &config.artifacts.directory;
            let run = |pair| directory.join(Member::place(pair));
            report::Side {
                name: format!("{} ({})", ["BASE", "NEW"][at], directory.display()),
                runs: (0..blocks.len() as u64).map(run).collect(),
            }
        })
    }

    fn comparison(&mut self) -> Comparison {
        let Look { compared, .. } = self.look();
        let [a, b] = &self.sides;
        let place = |name: &str| self.directory.join(name).display().to_string();
        Comparison {
            base: place(NAMES[0]),
            new: place(NAMES[1]),
            cell: None,
            parameters: Map::new(),
            runs: [a.blocks.len(), b.blocks.len()],
            different_loads: different_loads(
                &a.about["config"],
                &b.about["config"],
                Models::Compared,
            ),
            compared,
            differences: differences(&a.about, &b.about),
        }
    }
}

/// Returns whether both sides send prompts to one server and model, whose prefix cache is not emptied before
/// each block.
fn have_same_cache(a: &RunConfig, b: &RunConfig) -> bool {
    let shares_server = a.server.urls.iter().any(|url| b.server.urls.contains(url));
    shares_server
        && a.dataset.models == b.dataset.models
        && a.may_find_cached()
        && b.may_find_cached()
}

/// Which side of a pair is first: at random, but in two successive pairs each side once.
struct Order {
    random: ChaCha8Rng,
    last: Option<bool>,
}

impl Order {
    fn new() -> Self {
        Self { random: ChaCha8Rng::seed_from_u64(0), last: None }
    }

    fn next_pair(&mut self) -> [usize; 2] {
        let starts_with_b = if let Some(before) = self.last.take() {
            !before
        } else {
            let drawn = self.random.random_bool(0.5);
            self.last = Some(drawn);
            drawn
        };
        if starts_with_b { [1, 0] } else { [0, 1] }
    }
}
