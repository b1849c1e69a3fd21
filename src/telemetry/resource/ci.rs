//! The CI job in which aiperf runs, from the variables that CI systems set in each job.
//!
//! The attributes are those of OpenTelemetry's conventions for CI/CD pipelines and version control.

use std::collections::BTreeMap;

use opentelemetry::KeyValue;
use url::Url;

use crate::environment::Environment;
use crate::redact::ShownUrl;
use crate::semconv::attribute as key;

/// Attributes with a new value in each pipeline run. As the conventions require, metrics have them
/// only on request, since each value makes new series.
const OF_EACH_RUN: [&str; 4] = [
    key::CICD_PIPELINE_RUN_ID,
    key::CICD_PIPELINE_RUN_URL_FULL,
    key::CICD_PIPELINE_TASK_RUN_ID,
    key::CICD_PIPELINE_TASK_RUN_URL_FULL,
];

/// Returns whether the attribute has a new value in each pipeline run.
pub(super) fn is_of_each_run(key: &str) -> bool {
    OF_EACH_RUN.contains(&key)
}

/// A CI system.
struct System {
    /// A variable that it sets in each job.
    marker: &'static str,
    attributes: &'static [(&'static str, Source)],
}

/// The origin of an attribute's value.
enum Source {
    /// The first of these variables that is set.
    Variable(&'static [&'static str]),
    /// A variable with a URL.
    Link(&'static str),
    /// A variable with the address from which the repository is cloned.
    Repository(&'static str),
    /// The last part of a path in a variable.
    LastPart(&'static str),
    /// A constant.
    Constant(&'static str),
    /// Composed of several variables.
    Composed(fn(Environment<'_>) -> Option<String>),
}

use Source::{Composed, Constant, LastPart, Link, Repository, Variable};

/// The supported systems. Those that imitate GitHub's variables come before GitHub.
const SYSTEMS: [&System; 9] = [
    &System { marker: "GITEA_ACTIONS", attributes: &[(key::VCS_PROVIDER_NAME, Constant("gitea"))] },
    &System {
        marker: "FORGEJO_ACTIONS",
        attributes: &[(key::VCS_PROVIDER_NAME, Constant("gitea"))],
    },
    &GITHUB,
    &GITLAB,
    &JENKINS,
    &AZURE,
    &BUILDKITE,
    &CIRCLECI,
    &BITBUCKET,
];

const GITHUB: System = System {
    marker: "GITHUB_ACTIONS",
    attributes: &[
        (key::CICD_PIPELINE_NAME, Variable(&["GITHUB_WORKFLOW"])),
        (key::CICD_PIPELINE_RUN_ID, Variable(&["GITHUB_RUN_ID"])),
        (key::CICD_PIPELINE_RUN_URL_FULL, Composed(github_run)),
        (key::CICD_PIPELINE_TASK_NAME, Variable(&["GITHUB_JOB"])),
        (key::CICD_WORKER_NAME, Variable(&["RUNNER_NAME"])),
        (key::VCS_PROVIDER_NAME, Constant("github")),
        (key::VCS_REPOSITORY_URL_FULL, Composed(github_repository)),
        (key::VCS_REPOSITORY_NAME, LastPart("GITHUB_REPOSITORY")),
        (key::VCS_OWNER_NAME, Variable(&["GITHUB_REPOSITORY_OWNER"])),
        // On pull requests, GITHUB_REF_NAME is `7/merge`.
        (key::VCS_REF_HEAD_NAME, Variable(&["GITHUB_HEAD_REF", "GITHUB_REF_NAME"])),
        (key::VCS_REF_HEAD_REVISION, Variable(&["GITHUB_SHA"])),
        (key::VCS_REF_TYPE, Variable(&["GITHUB_REF_TYPE"])),
        (key::VCS_REF_BASE_NAME, Variable(&["GITHUB_BASE_REF"])),
        (key::VCS_CHANGE_ID, Composed(github_change)),
    ],
};

const GITLAB: System = System {
    marker: "GITLAB_CI",
    attributes: &[
        (key::CICD_PIPELINE_NAME, Variable(&["CI_PIPELINE_NAME"])),
        (key::CICD_PIPELINE_RUN_ID, Variable(&["CI_PIPELINE_ID"])),
        (key::CICD_PIPELINE_RUN_URL_FULL, Link("CI_PIPELINE_URL")),
        (key::CICD_PIPELINE_TASK_NAME, Variable(&["CI_JOB_NAME"])),
        (key::CICD_PIPELINE_TASK_RUN_ID, Variable(&["CI_JOB_ID"])),
        (key::CICD_PIPELINE_TASK_RUN_URL_FULL, Link("CI_JOB_URL")),
        (key::CICD_WORKER_ID, Variable(&["CI_RUNNER_ID"])),
        (key::CICD_WORKER_NAME, Variable(&["CI_RUNNER_DESCRIPTION"])),
        (key::VCS_PROVIDER_NAME, Constant("gitlab")),
        (key::VCS_REPOSITORY_URL_FULL, Repository("CI_PROJECT_URL")),
        (key::VCS_REPOSITORY_NAME, Variable(&["CI_PROJECT_NAME"])),
        (key::VCS_OWNER_NAME, Variable(&["CI_PROJECT_NAMESPACE"])),
        (
            key::VCS_REF_HEAD_NAME,
            Variable(&["CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "CI_COMMIT_REF_NAME"]),
        ),
        (key::VCS_REF_HEAD_REVISION, Variable(&["CI_COMMIT_SHA"])),
        (key::VCS_REF_TYPE, Composed(|of| Some(ref_type(of, "CI_COMMIT_TAG")))),
        (key::VCS_REF_BASE_NAME, Variable(&["CI_MERGE_REQUEST_TARGET_BRANCH_NAME"])),
        (key::VCS_REF_BASE_REVISION, Variable(&["CI_MERGE_REQUEST_DIFF_BASE_SHA"])),
        (key::VCS_CHANGE_ID, Variable(&["CI_MERGE_REQUEST_IID"])),
    ],
};

const JENKINS: System = System {
    marker: "JENKINS_URL",
    attributes: &[
        (key::CICD_PIPELINE_NAME, Variable(&["JOB_NAME"])),
        // The build's number alone is not unique.
        (key::CICD_PIPELINE_RUN_ID, Variable(&["BUILD_TAG"])),
        (key::CICD_PIPELINE_RUN_URL_FULL, Link("BUILD_URL")),
        (key::CICD_PIPELINE_TASK_NAME, Variable(&["STAGE_NAME"])),
        (key::CICD_WORKER_NAME, Variable(&["NODE_NAME"])),
        (key::VCS_REPOSITORY_URL_FULL, Repository("GIT_URL")),
        (key::VCS_REPOSITORY_NAME, Composed(|of| Some(repository_name(&of.trimmed("GIT_URL")?)))),
        (
            key::VCS_REF_HEAD_NAME,
            Variable(&[
                "CHANGE_BRANCH",
                "TAG_NAME",
                "BRANCH_NAME",
                "GIT_LOCAL_BRANCH",
                "GIT_BRANCH",
            ]),
        ),
        (key::VCS_REF_HEAD_REVISION, Variable(&["GIT_COMMIT"])),
        (
            key::VCS_REF_TYPE,
            Composed(|of| of.trimmed("GIT_COMMIT").map(|_| ref_type(of, "TAG_NAME"))),
        ),
        (key::VCS_REF_BASE_NAME, Variable(&["CHANGE_TARGET"])),
        (key::VCS_CHANGE_ID, Variable(&["CHANGE_ID"])),
    ],
};

const AZURE: System = System {
    marker: "TF_BUILD",
    attributes: &[
        (key::CICD_PIPELINE_NAME, Variable(&["BUILD_DEFINITIONNAME"])),
        (key::CICD_PIPELINE_RUN_ID, Variable(&["BUILD_BUILDID"])),
        (key::CICD_PIPELINE_RUN_URL_FULL, Composed(azure_run)),
        (key::CICD_PIPELINE_TASK_NAME, Variable(&["SYSTEM_JOBDISPLAYNAME", "AGENT_JOBNAME"])),
        (key::CICD_PIPELINE_TASK_RUN_ID, Variable(&["SYSTEM_JOBID"])),
        (key::CICD_WORKER_ID, Variable(&["AGENT_ID"])),
        (key::CICD_WORKER_NAME, Variable(&["AGENT_NAME"])),
        (key::VCS_REPOSITORY_URL_FULL, Repository("BUILD_REPOSITORY_URI")),
        (key::VCS_REPOSITORY_NAME, LastPart("BUILD_REPOSITORY_NAME")),
        (key::VCS_REF_HEAD_NAME, Composed(azure_ref)),
        (key::VCS_REF_HEAD_REVISION, Variable(&["BUILD_SOURCEVERSION"])),
        (key::VCS_REF_TYPE, Composed(azure_ref_type)),
        (
            key::VCS_REF_BASE_NAME,
            Composed(|of| Some(short_ref(&of.trimmed("SYSTEM_PULLREQUEST_TARGETBRANCH")?))),
        ),
        (
            key::VCS_CHANGE_ID,
            Variable(&["SYSTEM_PULLREQUEST_PULLREQUESTNUMBER", "SYSTEM_PULLREQUEST_PULLREQUESTID"]),
        ),
    ],
};

const BUILDKITE: System = System {
    marker: "BUILDKITE",
    attributes: &[
        (key::CICD_PIPELINE_NAME, Variable(&["BUILDKITE_PIPELINE_NAME"])),
        (key::CICD_PIPELINE_RUN_ID, Variable(&["BUILDKITE_BUILD_ID"])),
        (key::CICD_PIPELINE_RUN_URL_FULL, Link("BUILDKITE_BUILD_URL")),
        (key::CICD_PIPELINE_TASK_NAME, Variable(&["BUILDKITE_LABEL"])),
        (key::CICD_PIPELINE_TASK_RUN_ID, Variable(&["BUILDKITE_JOB_ID"])),
        (key::CICD_WORKER_ID, Variable(&["BUILDKITE_AGENT_ID"])),
        (key::CICD_WORKER_NAME, Variable(&["BUILDKITE_AGENT_NAME"])),
        (key::VCS_REPOSITORY_URL_FULL, Repository("BUILDKITE_REPO")),
        (
            key::VCS_REPOSITORY_NAME,
            Composed(|of| Some(repository_name(&of.trimmed("BUILDKITE_REPO")?))),
        ),
        (key::VCS_REF_HEAD_NAME, Variable(&["BUILDKITE_TAG", "BUILDKITE_BRANCH"])),
        // It is HEAD if the build was started for a branch.
        (
            key::VCS_REF_HEAD_REVISION,
            Composed(|of| of.trimmed("BUILDKITE_COMMIT").filter(|commit| commit != "HEAD")),
        ),
        (key::VCS_REF_TYPE, Composed(|of| Some(ref_type(of, "BUILDKITE_TAG")))),
        (key::VCS_REF_BASE_NAME, Variable(&["BUILDKITE_PULL_REQUEST_BASE_BRANCH"])),
        (
            key::VCS_CHANGE_ID,
            Composed(|of| of.trimmed("BUILDKITE_PULL_REQUEST").filter(|id| id != "false")),
        ),
    ],
};

const CIRCLECI: System = System {
    marker: "CIRCLECI",
    attributes: &[
        // A pipeline does not have a name.
        (key::CICD_PIPELINE_RUN_ID, Variable(&["CIRCLE_PIPELINE_ID", "CIRCLE_WORKFLOW_ID"])),
        (key::CICD_PIPELINE_TASK_NAME, Variable(&["CIRCLE_JOB"])),
        (key::CICD_PIPELINE_TASK_RUN_ID, Variable(&["CIRCLE_WORKFLOW_JOB_ID"])),
        (key::CICD_PIPELINE_TASK_RUN_URL_FULL, Link("CIRCLE_BUILD_URL")),
        (key::VCS_REPOSITORY_URL_FULL, Repository("CIRCLE_REPOSITORY_URL")),
        (key::VCS_REPOSITORY_NAME, Variable(&["CIRCLE_PROJECT_REPONAME"])),
        (key::VCS_OWNER_NAME, Variable(&["CIRCLE_PROJECT_USERNAME"])),
        (key::VCS_REF_HEAD_NAME, Variable(&["CIRCLE_TAG", "CIRCLE_BRANCH"])),
        (key::VCS_REF_HEAD_REVISION, Variable(&["CIRCLE_SHA1"])),
        (key::VCS_REF_TYPE, Composed(|of| Some(ref_type(of, "CIRCLE_TAG")))),
        (key::VCS_CHANGE_ID, Variable(&["CIRCLE_PR_NUMBER"])),
    ],
};

const BITBUCKET: System = System {
    marker: "BITBUCKET_BUILD_NUMBER",
    attributes: &[
        (key::CICD_PIPELINE_RUN_ID, Variable(&["BITBUCKET_PIPELINE_UUID"])),
        (key::CICD_PIPELINE_TASK_RUN_ID, Variable(&["BITBUCKET_STEP_UUID"])),
        (key::VCS_PROVIDER_NAME, Constant("bitbucket")),
        (key::VCS_REPOSITORY_URL_FULL, Repository("BITBUCKET_GIT_HTTP_ORIGIN")),
        (key::VCS_REPOSITORY_NAME, Variable(&["BITBUCKET_REPO_SLUG"])),
        (key::VCS_OWNER_NAME, Variable(&["BITBUCKET_WORKSPACE"])),
        (key::VCS_REF_HEAD_NAME, Variable(&["BITBUCKET_TAG", "BITBUCKET_BRANCH"])),
        (key::VCS_REF_HEAD_REVISION, Variable(&["BITBUCKET_COMMIT"])),
        (key::VCS_REF_TYPE, Composed(|of| Some(ref_type(of, "BITBUCKET_TAG")))),
        (key::VCS_REF_BASE_NAME, Variable(&["BITBUCKET_PR_DESTINATION_BRANCH"])),
        (key::VCS_CHANGE_ID, Variable(&["BITBUCKET_PR_ID"])),
    ],
};

/// Returns the attributes of the CI job whose variables are `given`, by their names; none outside CI.
pub(crate) fn ci_job(given: Environment<'_>) -> BTreeMap<String, String> {
    let pair = |pair: KeyValue| (pair.key.to_string(), pair.value.to_string());
    attributes(given).into_iter().map(pair).collect()
}

/// Returns the attributes of the CI job whose variables are `given`; none outside CI.
pub(in crate::telemetry) fn attributes(given: Environment<'_>) -> Vec<KeyValue> {
    let mut found: Vec<KeyValue> = Vec::new();
    for system in SYSTEMS.iter().filter(|system| given.trimmed(system.marker).is_some()) {
        for (key, source) in system.attributes {
            // The first system that states something is right.
            if found.iter().all(|have| have.key.as_str() != *key) {
                found.extend(source.read(given).map(|value| KeyValue::new(*key, value)));
            }
        }
    }
    found
}

impl Source {
    fn read(&self, given: Environment<'_>) -> Option<String> {
        match self {
            Variable(names) => names.iter().find_map(|name| given.trimmed(name)),
            Link(name) => link(&given.trimmed(name)?),
            Repository(name) => repository(&given.trimmed(name)?),
            LastPart(name) => Some(last_part(&given.trimmed(name)?).to_owned()),
            Constant(value) => Some((*value).to_owned()),
            Composed(compose) => compose(given),
        }
    }
}

/// Returns an HTTP URL without its credentials; `None` if the text is not one.
fn link(text: &str) -> Option<String> {
    let mut url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    url.set_username("").ok()?;
    url.set_password(None).ok()?;
    Some(ShownUrl::new(url.as_str()).to_string())
}

/// Returns the address of a repository as the conventions write it: over HTTPS, without `.git`.
/// Addresses for SSH, `git@host:owner/name.git` and `ssh://git@host/owner/name.git`, become those of
/// the same host over HTTPS.
fn repository(address: &str) -> Option<String> {
    let over_http = match address.split_once("://") {
        Some(("http" | "https", _)) => link(address)?,
        Some(("ssh", rest)) => {
            let (authority, path) = rest.split_once('/')?;
            let host = authority.rsplit('@').next()?.split(':').next()?;
            link(&format!("https://{host}/{path}"))?
        }
        Some(_) => return None,
        None => {
            let (authority, path) = address.split_once(':')?;
            link(&format!("https://{}/{path}", authority.rsplit('@').next()?))?
        }
    };
    let trimmed = over_http.trim_end_matches('/');
    Some(trimmed.strip_suffix(".git").unwrap_or(trimmed).to_owned())
}

/// Returns the name of a repository, without its owner, from its address.
fn repository_name(address: &str) -> String {
    let last = last_part(address);
    last.strip_suffix(".git").unwrap_or(last).to_owned()
}

fn last_part(path: &str) -> &str {
    path.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or(path)
}

/// Returns the value of `vcs.ref.type`; the variable `tag` is only set for tags.
fn ref_type(given: Environment<'_>, tag: &str) -> String {
    if given.trimmed(tag).is_some() { "tag" } else { "branch" }.to_owned()
}

/// Returns the name of a branch or tag without `refs/heads/` or `refs/tags/`.
fn short_ref(name: &str) -> String {
    let short = name.strip_prefix("refs/heads/").or_else(|| name.strip_prefix("refs/tags/"));
    short.unwrap_or(name).to_owned()
}

fn github_repository(given: Environment<'_>) -> Option<String> {
    let server = given.trimmed("GITHUB_SERVER_URL")?;
    repository(&format!("{server}/{}", given.trimmed("GITHUB_REPOSITORY")?))
}

fn github_run(given: Environment<'_>) -> Option<String> {
    Some(format!("{}/actions/runs/{}", github_repository(given)?, given.trimmed("GITHUB_RUN_ID")?))
}

/// Returns the number in `refs/pull/7/merge`.
fn github_change(given: Environment<'_>) -> Option<String> {
    let full = given.trimmed("GITHUB_REF")?;
    Some(full.strip_prefix("refs/pull/")?.split('/').next()?.to_owned())
}

fn azure_run(given: Environment<'_>) -> Option<String> {
    let collection = given.trimmed("SYSTEM_COLLECTIONURI")?;
    let (project, id) = (given.trimmed("SYSTEM_TEAMPROJECT")?, given.trimmed("BUILD_BUILDID")?);
    link(&format!("{}/{project}/_build/results?buildId={id}", collection.trim_end_matches('/')))
}

fn azure_ref(given: Environment<'_>) -> Option<String> {
    let of_change = given.trimmed("SYSTEM_PULLREQUEST_SOURCEBRANCH");
    Some(short_ref(&of_change.or_else(|| given.trimmed("BUILD_SOURCEBRANCH"))?))
}

fn azure_ref_type(given: Environment<'_>) -> Option<String> {
    let full = given.trimmed("BUILD_SOURCEBRANCH")?;
    Some(if full.starts_with("refs/tags/") { "tag" } else { "branch" }.to_owned())
}

#[cfg(test)]
mod tests;
