//! Datasets from the Hugging Face hub: Parquet and JSON files, of which each row becomes a
//! conversation.

mod layout;
mod public;
mod shape;
#[cfg(test)]
mod tests;

use std::io::Cursor;

use serde::Serialize;

use base::input::Input;
use base::setting::InvalidSetting;
use tokens::hub::{Hub, HubError, RepositoryKind};
use tokens::tokenizer::TokenCounter;

use self::public::Files;
pub use self::public::{PUBLIC, Public};
pub(super) use self::shape::PLACEHOLDER;
use self::shape::{Shape, Unusable};
use super::account::{Conversations, LeftOut};
use super::file;
use super::media::MediaFiles;
use super::rows::{self, Row};
use super::said;
use super::{DatasetError, Seed, TraceSettings, trees};

/// The branch with a dataset's own files.
const MAIN: &str = "main";
/// The branch with the Parquet files that the hub makes of a public dataset.
const CONVERTED: &str = "refs/convert/parquet";
/// Maximum size of a file.
const MAX_BYTES: u64 = 16 << 30;
/// Default number of conversations with media, which take much memory.
const MEDIA_ENTRIES: usize = 100;

/// A dataset on the hub, and which of its rows to use.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HubDataset {
    /// The public dataset, if it is one with a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public: Option<&'static Public>,
    /// Name of the repository.
    pub repository: String,
    /// Branch, tag or commit; `None` reads the hub's Parquet files if it has made any, otherwise
    /// the files of the branch `main`.
    pub revision: Option<String>,
    /// Subset (configuration); `None` is the only one, or the one named `default`.
    pub subset: Option<String>,
    /// Split; `None` is `train`, or another usual one.
    pub split: Option<String>,
    /// Column with the prompts; `None` finds it by its name.
    pub column: Option<String>,
    /// Columns, and the value that rows must have in each of them.
    pub filters: Vec<(String, String)>,
    /// Whether its rows are traces of agents (`weka_trace` or `exgentic`).
    pub has_agents: bool,
    /// How its traces are used, if it has any.
    pub traces: TraceSettings,
    /// Maximum number of conversations; `None` reads the whole first file.
    pub entries: Option<usize>,
}

/// Reads `dataset`, after downloading those of its files that are needed and not in the cache.
pub(super) fn read(
    dataset: &HubDataset,
    hub: &Hub,
    counter: &TokenCounter,
    seed: Seed,
) -> Result<Conversations, DatasetError> {
    if dataset.has_agents {
        return dataset.read_agents(hub, counter, seed);
    }
    file::refuse_traces(&dataset.traces)?;
    let mut reading = Reading::new(dataset);
    reading.read(hub, counter)?;
    dataset.noted(file::Loaded::from(reading.conversations))
}

impl HubDataset {
    /// Returns the URL of the dataset, in the form of the hub's clients.
    pub fn url(&self) -> String {
        let revision = self.revision.iter().map(|revision| format!("@{revision}"));
        format!("hf://datasets/{}{}", self.repository, revision.collect::<String>())
    }

    /// Returns the revision to read, and the paths of its files, in order.
    fn locate(&self, hub: &Hub) -> Result<(String, Vec<String>), DatasetError> {
        let failed = |error: HubError| self.failed(&error);
        let subset = self.subset.as_deref();
        let split = self.split.as_deref();
        let list = |revision: &str| {
            hub.repository(RepositoryKind::Dataset, &self.repository, revision)?.list()
        };
        if self.revision.is_none() {
            match list(CONVERTED) {
                Ok(listing) => {
                    let files = layout::converted(&listing.files, subset, split)?;
                    if !files.is_empty() {
                        return Ok((listing.commit, files));
                    }
                }
                // Not every dataset has been converted.
                Err(HubError::NotFound | HubError::Offline { .. }) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        let listing = list(self.revision.as_deref().unwrap_or(MAIN)).map_err(failed)?;
        let files = layout::own(&listing.files, subset, split)?;
        if files.is_empty() {
            let why = "it does not have Parquet, JSONL or JSON files";
            return Err(self.unusable(why.to_owned()));
        }
        Ok((listing.commit, files))
    }

    /// Reads all files as traces of agents, up to the maximum number of conversations.
    fn read_agents(
        &self,
        hub: &Hub,
        counter: &TokenCounter,
        seed: Seed,
    ) -> Result<Conversations, DatasetError> {
        let (commit, files) = self.locate(hub)?;
        let open = |name: String| {
            let repository = hub.repository(RepositoryKind::Dataset, &self.repository, &commit);
            let file = repository.and_then(|it| it.open(&name, MAX_BYTES));
            file.map_err(|error| error.to_string()).and_then(|file| rows::open(file, &name))
        };
        let rows = files.into_iter().flat_map(|name| -> Box<dyn Iterator<Item = _>> {
            match open(name) {
                Ok(rows) => rows,
                Err(why) => Box::new(std::iter::once(Err(why))),
            }
        });
        let unusable = |reason| self.unusable(reason);
        let traces = TraceSettings { entries: self.entries, ..self.traces };
        let loaded = file::read_agents(rows, &self.filters, &traces, (counter, seed), unusable)?;
        self.noted(loaded)
    }

    /// Logs what was left out, changed or ignored.
    ///
    /// # Errors
    ///
    /// Fails if no conversation is left.
    fn noted(&self, loaded: file::Loaded) -> Result<Conversations, DatasetError> {
        let (note, count) = (loaded.note(), loaded.conversations.len());
        tracing::info!(dataset = self.repository, "{count} conversations{note}");
        if count == 0 {
            return Err(self.unusable(format!("it contains no usable conversation{note}")));
        }
        let wrong = |(_, why)| self.unusable(why);
        trees::check(&loaded.conversations).map_err(wrong)?;
        Ok(loaded.conversations)
    }

    fn failed(&self, error: &HubError) -> DatasetError {
        self.unusable(error.to_string())
    }

    fn unusable(&self, reason: String) -> DatasetError {
        DatasetError::Hub { name: self.repository.clone(), reason }
    }
}

/// A dataset that is being read.
struct Reading<'a> {
    dataset: &'a HubDataset,
    /// How a row becomes a conversation; known from the first row.
    shape: Option<Shape<'a>>,
    media: MediaFiles,
    conversations: Conversations,
    most: Option<usize>,
    /// Whether a row was left out since it is not like the others.
    has_odd_row: bool,
}

impl<'a> Reading<'a> {
    fn new(dataset: &'a HubDataset) -> Self {
        let has_media = dataset.public.is_some_and(|public| public.medium.is_some());
        Self {
            dataset,
            shape: None,
            media: MediaFiles::default(),
            conversations: Conversations::default(),
            most: dataset.entries.or(has_media.then_some(MEDIA_ENTRIES)),
            has_odd_row: false,
        }
    }

    fn is_full(&self) -> bool {
        self.most.is_some_and(|most| self.conversations.len() >= most)
    }

    fn read(&mut self, hub: &Hub, counter: &TokenCounter) -> Result<(), DatasetError> {
        let dataset = self.dataset;
        let failed = |error: HubError| dataset.failed(&error);
        let open = |revision: &str, file: &str| {
            hub.repository(RepositoryKind::Dataset, &dataset.repository, revision)?
                .open(file, MAX_BYTES)
        };
        match dataset.public.map(|public| public.files) {
            Some(Files::ShareGpt(name)) => {
                let file = open(dataset.revision.as_deref().unwrap_or(MAIN), name);
                let loaded = file::read_sharegpt(file.map_err(failed)?, counter)
                    .map_err(|why| dataset.unusable(format!("{name}, {why}")))?;
                self.conversations = loaded.conversations;
                let most = self.most.unwrap_or(usize::MAX);
                self.conversations.retain(LeftOut::BeyondLimit, |at, _| at < most);
                Ok(())
            }
            Some(Files::Url(url)) => {
                let body = hub.get(url, MAX_BYTES).map_err(failed)?;
                let input = Input::new(Cursor::new(body));
                let input = input.map_err(|why| dataset.unusable(format!("{url}: {why}")))?;
                self.read_rows(url, rows::json(input))
            }
            Some(Files::Split(..) | Files::Agents) | None => {
                let (commit, files) = dataset.locate(hub)?;
                let mut files = files.into_iter();
                while let Some(name) = files.next() {
                    let file = open(&commit, &name).map_err(failed)?;
                    let rows = rows::open(file, &name)
                        .map_err(|why| dataset.unusable(format!("{name}: {why}")))?;
                    self.read_rows(&name, rows)?;
                    // Without a number, one file is enough.
                    let is_enough = self.most.is_none() && !self.conversations.is_empty();
                    if is_enough || self.is_full() {
                        if files.next().is_some() {
                            self.conversations.stop_at_limit();
                        }
                        break;
                    }
                }
                Ok(())
            }
        }
    }

    fn read_rows(
        &mut self,
        name: &str,
        rows: impl Iterator<Item = Result<Row, String>>,
    ) -> Result<(), DatasetError> {
        let dataset = self.dataset;
        for (number, row) in (1..).zip(rows) {
            if self.is_full() {
                self.conversations.stop_at_limit();
                break;
            }
            let wrong = |why: String| dataset.unusable(format!("{name}, row {number}: {why}"));
            let row = row.map_err(wrong)?;
            if row.is_empty() {
                self.leave_out(name, number, "expected an object");
                continue;
            }
            if !self.keeps(&row)? {
                self.conversations.leave_out(LeftOut::Filtered, 1);
                continue;
            }
            let shape = match self.shape.take() {
                Some(shape) => shape,
                None => Shape::find(dataset, &row)?,
            };
            match shape.add(&row, &mut self.media, &mut self.conversations) {
                Ok(()) => {}
                Err(Unusable::Row(why)) => self.leave_out(name, number, &why),
                Err(Unusable::Dataset(why)) => return Err(wrong(why)),
            }
            self.shape = Some(shape);
        }
        Ok(())
    }

    /// Leaves out a row that is not like the others, after a warning if it is the first.
    fn leave_out(&mut self, file: &str, row: usize, why: &str) {
        self.conversations.leave_out(LeftOut::WithoutPrompt, 1);
        if !self.has_odd_row {
            tracing::warn!("{file}, row {row}: {why}; rows without a prompt are left out");
            self.has_odd_row = true;
        }
    }

    /// Returns whether `row` passes the filters.
    fn keeps(&self, row: &Row) -> Result<bool, InvalidSetting> {
        let of_public = self.dataset.public.and_then(|public| public.filter);
        let given = self.dataset.filters.iter().map(|(name, value)| (&**name, &**value));
        for (column, wanted) in of_public.into_iter().chain(given) {
            let Some(value) = row.get(column) else {
                return Err(shape::missing("--dataset-filter", column, row));
            };
            if said::text(value) != wanted {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
