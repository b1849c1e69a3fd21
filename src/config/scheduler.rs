//! Which shard of a run this process is (`--shard`), also according to the scheduler that started it.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use base::units::Nanos;
use client::schedule::Shard;

use super::Environment;

/// How a shard is chosen (`--shard`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardChoice {
    /// By its index and the number of shards.
    Given(Shard),
    /// As the scheduler numbers its tasks; `count` is the number of shards, if the user named it.
    Auto {
        /// Number of shards.
        count: Option<u64>,
    },
}

impl FromStr for ShardChoice {
    type Err = String;

    /// Parses `i/n`, `auto` or `auto/n`.
    fn from_str(text: &str) -> Result<Self, String> {
        let Some(rest) = text.trim().strip_prefix("auto") else {
            return text.parse().map(Self::Given);
        };
        let count = match rest {
            "" => None,
            rest => {
                let count = rest.strip_prefix('/').and_then(|count| count.trim().parse().ok());
                let count = count.ok_or("expected auto, or auto/N with the number of shards")?;
                Some(Shard::checked(0, count)?.count())
            }
        };
        Ok(Self::Auto { count })
    }
}

/// How the shards of a run agree on its start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Barrier {
    /// Time for which they wait for each other, from when the first is ready.
    pub timeout: Nanos,
    /// What tells this start of the job from others, if the scheduler says it.
    pub attempt: Option<String>,
}

impl Barrier {
    /// The default of [`timeout`](Self::timeout): longer than pulling an image or loading a model
    /// usually takes.
    pub const TIMEOUT: Nanos = Nanos(600_000_000_000);
}

/// A task of a scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// The shard that it drives.
    pub shard: Shard,
    /// What tells this start of the job from others, if the scheduler says it.
    pub attempt: Option<String>,
}

/// Variables with an index and the number of tasks that several launchers set: Open MPI, MPICH and
/// Intel MPI, and torchrun.
const PAIRS: [(&str, &str); 3] = [
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("RANK", "WORLD_SIZE"),
];

/// The variable of a pod of a Kubernetes Indexed Job, which does not learn the number of pods.
const JOB_COMPLETION_INDEX: &str = "JOB_COMPLETION_INDEX";

/// The variables of a task that srun started.
const SLURM_TASK: (&str, &str) = ("SLURM_PROCID", "SLURM_NTASKS");

/// What one scheduler says of this process.
struct Source {
    /// The variables that say it.
    names: String,
    index: u64,
    count: Option<u64>,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { names, index, count } = self;
        match count {
            Some(count) => write!(f, "{index}/{count} ({names})"),
            None => write!(f, "{index} ({names})"),
        }
    }
}

/// Returns the task that this process is; `count` is the number of shards, if the user named it.
///
/// # Errors
///
/// Fails if no scheduler says it, if two contradict each other, or if the number of shards is not
/// known.
pub fn task(count: Option<u64>, environment: Environment<'_>) -> Result<Task, String> {
    let mut sources = Vec::from_iter(slurm(environment)?);
    let index = number(JOB_COMPLETION_INDEX, environment)?;
    let names = || JOB_COMPLETION_INDEX.to_owned();
    sources.extend(index.map(|index| Source { names: names(), index, count: None }));
    for names in PAIRS {
        sources.extend(pair(names, environment)?);
    }
    let Some(first) = sources.first() else { return Err(none(environment)) };
    let differs = |other: &&Source| {
        let counts = first.count.zip(other.count);
        first.index != other.index || counts.is_some_and(|(one, other)| one != other)
    };
    if let Some(other) = sources.iter().find(differs) {
        return Err(format!(
            "the environment says that this is shard {first} and {other}; unset the variables that \
             do not apply, or use --shard I/N"
        ));
    }
    let told = sources.iter().find(|source| source.count.is_some());
    let count = match (count, told) {
        (Some(count), Some(source)) if source.count != Some(count) => {
            return Err(format!("auto/{count} contradicts the environment, which says {source}"));
        }
        (Some(count), _) => count,
        (None, Some(Source { count: Some(count), .. })) => *count,
        (None, _) => {
            return Err(format!(
                "{} does not say how many shards there are; use --shard auto/N, with the number of \
                 the Job's completions",
                first.names
            ));
        }
    };
    let shard = Shard::checked(first.index, count).map_err(|why| format!("{first}: {why}"))?;
    Ok(Task { shard, attempt: attempt(environment) })
}

/// Returns the error for an environment without any task.
fn none(environment: Environment<'_>) -> String {
    let (_, tasks) = SLURM_TASK;
    if is_batch_script(environment) && environment.trimmed(tasks).is_some() {
        return format!(
            "the batch script itself is not a task, although {tasks} is set; start aiperf with srun"
        );
    }
    let pairs = PAIRS.map(|(index, count)| format!("{index} and {count}")).join(", ");
    let (slurm, _) = SLURM_TASK;
    format!(
        "no scheduler names the shard: none of {slurm} and {tasks}, SLURM_ARRAY_TASK_ID, \
         {JOB_COMPLETION_INDEX}, {pairs} is set; start aiperf with a scheduler, or use --shard I/N"
    )
}

/// Returns whether this is a batch script of Slurm, which has the variables of a task without being
/// one: only the steps that srun starts have an ID.
fn is_batch_script(environment: Environment<'_>) -> bool {
    let is_set = |name| environment.trimmed(name).is_some();
    is_set("SLURM_JOB_ID") && !is_set("SLURM_STEP_ID")
}

/// Returns the task of a step with several tasks, or else that of a job array.
fn slurm(environment: Environment<'_>) -> Result<Option<Source>, String> {
    // The number of tasks alone is that of the allocation in which this process is.
    let is_task = !is_batch_script(environment) && environment.trimmed(SLURM_TASK.0).is_some();
    let task = if is_task { pair(SLURM_TASK, environment)? } else { None };
    let is_alone = task.as_ref().is_none_or(|task| task.count == Some(1));
    match array(environment)? {
        Some(array) if is_alone => Ok(Some(array)),
        _ => Ok(task),
    }
}

/// Returns the task of a job array with several tasks.
fn array(environment: Environment<'_>) -> Result<Option<Source>, String> {
    let names =
        ["ID", "MIN", "MAX", "COUNT", "STEP"].map(|what| format!("SLURM_ARRAY_TASK_{what}"));
    let mut values = [None; 5];
    for (value, name) in values.iter_mut().zip(&names) {
        *value = number(name, environment)?;
    }
    let [id, min, max, count, step] = values;
    let (Some(id), Some(count)) = (id, count) else { return Ok(None) };
    if count < 2 {
        return Ok(None);
    }
    let (min, step) = (min.unwrap_or(0), step.unwrap_or(1).max(1));
    let last = min.saturating_add((count - 1).saturating_mul(step));
    let offset = id.checked_sub(min).filter(|offset| offset.is_multiple_of(step));
    match offset {
        Some(offset) if max.is_none_or(|max| max == last) => {
            Ok(Some(Source { names: names.join(", "), index: offset / step, count: Some(count) }))
        }
        _ => Err(format!(
            "the indices of the job array are not evenly spaced, so {} = {id} does not say which of \
             its {count} tasks this is; use an array such as 0-{}, or --shard I/N",
            names[0],
            count - 1
        )),
    }
}

/// Returns what a pair of variables says, if it is set.
fn pair(
    (index, count): (&str, &str),
    environment: Environment<'_>,
) -> Result<Option<Source>, String> {
    let names = format!("{index}, {count}");
    match (number(index, environment)?, number(count, environment)?) {
        (None, None) => Ok(None),
        (Some(index), Some(count)) => Ok(Some(Source { names, index, count: Some(count) })),
        (Some(_), None) => Err(format!("{index} is set, but {count} is not; set both or neither")),
        (None, Some(_)) => Err(format!("{count} is set, but {index} is not; set both or neither")),
    }
}

/// Returns the value of a variable, if it is set.
fn number(name: &str, environment: Environment<'_>) -> Result<Option<u64>, String> {
    let Some(text) = environment.trimmed(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| format!("{name} is {text:?}, which is not a valid number"))
}

/// Returns what tells this start of the job from others: a job that is requeued keeps its ID.
fn attempt(environment: Environment<'_>) -> Option<String> {
    let get = |name| environment.trimmed(name);
    let or_zero = |name| get(name).unwrap_or_else(|| "0".to_owned());
    if let Some(job) = get("SLURM_ARRAY_JOB_ID").or_else(|| get("SLURM_JOB_ID")) {
        let step = get("SLURM_STEP_ID").unwrap_or_else(|| "batch".to_owned());
        return Some(format!("Slurm {job}.{step}, restart {}", or_zero("SLURM_RESTART_COUNT")));
    }
    if let Some(id) = get("TORCHELASTIC_RUN_ID") {
        let restarts = or_zero("TORCHELASTIC_RESTART_COUNT");
        return Some(format!("torchrun {id}, restart {restarts}"));
    }
    get("PMIX_NAMESPACE").map(|space| format!("PMIx {space}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `--shard auto` or `auto/count` finds in an environment such as `RANK=1 WORLD_SIZE=4`.
    fn found(count: Option<u64>, environment: &str) -> Result<Task, String> {
        let lookup = |name: &str| {
            let mut all = environment.split_whitespace().filter_map(|pair| pair.split_once('='));
            all.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
        };
        task(count, Environment::new(&lookup))
    }

    fn shard(environment: &str) -> String {
        found(None, environment).map_or_else(|why| why, |task| task.shard.to_string())
    }

    #[test]
    fn each_scheduler_numbers_its_tasks() {
        for (environment, expected) in [
            ("SLURM_PROCID=1 SLURM_NTASKS=4", "1/4"),
            ("SLURM_JOB_ID=9 SLURM_STEP_ID=0 SLURM_PROCID=3 SLURM_NTASKS=4", "3/4"),
            ("OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=3", "2/3"),
            ("PMI_RANK=0 PMI_SIZE=1", "0/1"),
            ("RANK=7 WORLD_SIZE=8", "7/8"),
            // As PyTorch's operator sets them in a Job of Kubernetes.
            ("JOB_COMPLETION_INDEX=5 RANK=5 WORLD_SIZE=8", "5/8"),
            ("SLURM_PROCID=1 SLURM_NTASKS=2 PMI_RANK=1 PMI_SIZE=2", "1/2"),
        ] {
            assert_eq!(shard(environment), expected, "{environment}");
        }
        let pod = found(Some(8), "JOB_COMPLETION_INDEX=5").unwrap();
        assert_eq!((pod.shard.to_string().as_str(), pod.attempt), ("5/8", None));
    }

    /// `--array=2-8:3`: the tasks 2, 5 and 8, as Slurm 22.05 describes them.
    #[test]
    fn job_arrays_are_counted_in_steps() {
        let array = "SLURM_ARRAY_TASK_MIN=2 SLURM_ARRAY_TASK_MAX=8 SLURM_ARRAY_TASK_COUNT=3 \
                     SLURM_ARRAY_TASK_STEP=3 SLURM_ARRAY_JOB_ID=4 SLURM_JOB_ID=6";
        for (id, expected) in [(2, "0/3"), (5, "1/3"), (8, "2/3")] {
            let script = format!("{array} SLURM_ARRAY_TASK_ID={id} SLURM_PROCID=0");
            assert_eq!(shard(&script), expected);
            let step = format!("{script} SLURM_STEP_ID=0 SLURM_NTASKS=1");
            assert_eq!(shard(&step), expected);
        }
        // A job with several tasks is a run of its own.
        let tasks = format!("{array} SLURM_ARRAY_TASK_ID=5 SLURM_STEP_ID=0");
        assert_eq!(shard(&format!("{tasks} SLURM_PROCID=1 SLURM_NTASKS=2")), "1/2");
        let uneven = array.replace("MAX=8", "MAX=9");
        let why = shard(&format!("{uneven} SLURM_ARRAY_TASK_ID=5"));
        assert!(why.contains("not evenly spaced") && why.contains("SLURM_ARRAY_TASK_ID"), "{why}");
    }

    #[test]
    fn contradictions_name_the_variables() {
        for (count, environment, names) in [
            (None, "", &["SLURM_PROCID", "JOB_COMPLETION_INDEX", "WORLD_SIZE", "--shard I/N"][..]),
            (None, "RANK=1", &["RANK is set, but WORLD_SIZE is not"]),
            (None, "WORLD_SIZE=4", &["WORLD_SIZE is set, but RANK is not"]),
            (None, "PMI_RANK=x PMI_SIZE=2", &["PMI_RANK is \"x\""]),
            (None, "JOB_COMPLETION_INDEX=1", &["JOB_COMPLETION_INDEX", "--shard auto/N"]),
            (None, "RANK=1 WORLD_SIZE=4 PMI_RANK=2 PMI_SIZE=4", &["2/4 (PMI_RANK", "1/4 (RANK"]),
            (None, "RANK=4 WORLD_SIZE=4", &["RANK", "numbered from 0"]),
            (Some(5), "RANK=1 WORLD_SIZE=4", &["auto/5", "WORLD_SIZE"]),
            // The batch script, and a shell in an allocation.
            (None, "SLURM_JOB_ID=1 SLURM_PROCID=0 SLURM_NTASKS=4", &["SLURM_NTASKS", "srun"]),
            (None, "SLURM_JOB_ID=1 SLURM_NTASKS=4", &["SLURM_NTASKS", "srun"]),
        ] {
            let why = found(count, environment).unwrap_err();
            assert!(names.iter().all(|name| why.contains(name)), "{environment}: {why}");
        }
        // mpirun in a batch script.
        let mpi = "SLURM_JOB_ID=1 SLURM_PROCID=0 SLURM_NTASKS=4 \
                   OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4";
        assert_eq!(shard(mpi), "3/4");
    }

    #[test]
    fn a_requeued_job_is_another_attempt() {
        let attempt = |environment: &str| found(None, environment).unwrap().attempt.unwrap();
        let step = "SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_NTASKS=2";
        let again = attempt(&format!("{step} SLURM_RESTART_COUNT=1"));
        assert_eq!(attempt(step), attempt(&step.replace("PROCID=0", "PROCID=1")));
        assert_ne!(attempt(step), again);
        assert_ne!(attempt(step), attempt(&step.replace("STEP_ID=0", "STEP_ID=1")));
    }

    #[test]
    fn a_choice_is_a_shard_or_automatic() {
        let parsed = |text: &str| text.parse::<ShardChoice>();
        assert_eq!(parsed("1/4"), Ok(ShardChoice::Given("1/4".parse().unwrap())));
        assert_eq!(parsed("auto"), Ok(ShardChoice::Auto { count: None }));
        assert_eq!(parsed("auto/8"), Ok(ShardChoice::Auto { count: Some(8) }));
        for wrong in ["", "auto/", "auto/0", "auto/65537", "auto8", "automatic", "4/4", "1/auto"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
