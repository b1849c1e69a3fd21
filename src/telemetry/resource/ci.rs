//! The CI job in which aiperf runs, from the variables that CI systems set in each job, as attributes of
//! OpenTelemetry's conventions for CI/CD pipelines and version control.

use std::collections::BTreeMap;

use url::Url;

use base::environment::Environment;
use base::semconv::attribute as key;

/// The first four have a new value in each pipeline run.
#[rustfmt::skip]
const ATTRIBUTES: [&str; 18] = [
    key::CICD_PIPELINE_RUN_ID, key::CICD_PIPELINE_RUN_URL_FULL, key::CICD_PIPELINE_TASK_RUN_ID,
    key::CICD_PIPELINE_TASK_RUN_URL_FULL, key::CICD_PIPELINE_NAME, key::CICD_PIPELINE_TASK_NAME,
    key::CICD_WORKER_ID, key::CICD_WORKER_NAME, key::VCS_PROVIDER_NAME, key::VCS_OWNER_NAME,
    key::VCS_REPOSITORY_NAME, key::VCS_REPOSITORY_URL_FULL, key::VCS_REF_HEAD_NAME,
    key::VCS_REF_HEAD_REVISION, key::VCS_REF_TYPE, key::VCS_REF_BASE_NAME,
    key::VCS_REF_BASE_REVISION, key::VCS_CHANGE_ID,
];

/// A variable that each system sets, and the attributes in their order: a variable, `|` and another one if
/// it is not set, the parts of a path, or a constant. The last system that states one is right.
#[rustfmt::skip]
const SYSTEMS: [(&str, &str); 9] = [
    ("GITHUB_ACTIONS", "GITHUB_RUN_ID GITHUB_SERVER_URL/GITHUB_REPOSITORY/actions/runs/GITHUB_RUN_ID
        - - GITHUB_WORKFLOW GITHUB_JOB - RUNNER_NAME github GITHUB_REPOSITORY_OWNER -
        GITHUB_SERVER_URL/GITHUB_REPOSITORY GITHUB_HEAD_REF|GITHUB_REF_NAME GITHUB_SHA GITHUB_REF_TYPE
        GITHUB_BASE_REF"),
    ("GITEA_ACTIONS", "- - - - - - - - gitea"),
    ("FORGEJO_ACTIONS", "- - - - - - - - gitea"),
    ("GITLAB_CI", "CI_PIPELINE_ID CI_PIPELINE_URL CI_JOB_ID CI_JOB_URL CI_PIPELINE_NAME CI_JOB_NAME
        CI_RUNNER_ID CI_RUNNER_DESCRIPTION gitlab CI_PROJECT_NAMESPACE CI_PROJECT_NAME CI_PROJECT_URL
        CI_MERGE_REQUEST_SOURCE_BRANCH_NAME|CI_COMMIT_REF_NAME CI_COMMIT_SHA -
        CI_MERGE_REQUEST_TARGET_BRANCH_NAME CI_MERGE_REQUEST_DIFF_BASE_SHA CI_MERGE_REQUEST_IID"),
    ("JENKINS_URL", "BUILD_TAG BUILD_URL - - JOB_NAME STAGE_NAME - NODE_NAME - - - GIT_URL
        CHANGE_BRANCH|TAG_NAME|BRANCH_NAME|GIT_BRANCH GIT_COMMIT - CHANGE_TARGET - CHANGE_ID"),
    ("TF_BUILD", "BUILD_BUILDID - SYSTEM_JOBID - BUILD_DEFINITIONNAME SYSTEM_JOBDISPLAYNAME AGENT_ID
        AGENT_NAME - - - BUILD_REPOSITORY_URI BUILD_SOURCEBRANCHNAME BUILD_SOURCEVERSION -
        SYSTEM_PULLREQUEST_TARGETBRANCHNAME - SYSTEM_PULLREQUEST_PULLREQUESTNUMBER"),
    ("BUILDKITE", "BUILDKITE_BUILD_ID BUILDKITE_BUILD_URL BUILDKITE_JOB_ID - BUILDKITE_PIPELINE_NAME
        BUILDKITE_LABEL BUILDKITE_AGENT_ID BUILDKITE_AGENT_NAME - - - BUILDKITE_REPO
        BUILDKITE_TAG|BUILDKITE_BRANCH BUILDKITE_COMMIT - BUILDKITE_PULL_REQUEST_BASE_BRANCH"),
    ("CIRCLECI", "CIRCLE_WORKFLOW_ID - CIRCLE_WORKFLOW_JOB_ID CIRCLE_BUILD_URL - CIRCLE_JOB - - -
        CIRCLE_PROJECT_USERNAME CIRCLE_PROJECT_REPONAME CIRCLE_REPOSITORY_URL CIRCLE_TAG|CIRCLE_BRANCH
        CIRCLE_SHA1 - - - CIRCLE_PR_NUMBER"),
    ("BITBUCKET_BUILD_NUMBER", "BITBUCKET_PIPELINE_UUID - BITBUCKET_STEP_UUID - - - - - bitbucket
        BITBUCKET_WORKSPACE BITBUCKET_REPO_SLUG BITBUCKET_GIT_HTTP_ORIGIN BITBUCKET_TAG|BITBUCKET_BRANCH
        BITBUCKET_COMMIT - BITBUCKET_PR_DESTINATION_BRANCH - BITBUCKET_PR_ID"),
];

/// Returns whether the attribute has a new value in each run: metrics would have new series.
pub(super) fn is_of_each_run(key: &str) -> bool {
    ATTRIBUTES[..4].contains(&key)
}

/// Returns the attributes of the CI job whose variables are `given`, by their names; none outside CI.
pub fn ci_job(given: Environment<'_>) -> BTreeMap<String, String> {
    let part = |part: &str| {
        let is_variable = part.starts_with(char::is_uppercase);
        if is_variable { given.trimmed(part) } else { Some(part.to_owned()) }
    };
    let path = |path: &str| Some(path.split('/').map(part).collect::<Option<Vec<_>>>()?.join("/"));
    let mut found = BTreeMap::new();
    for (_, row) in SYSTEMS.iter().filter(|(marker, _)| given.trimmed(marker).is_some()) {
        for (key, source) in ATTRIBUTES.iter().zip(row.split_whitespace()) {
            let text = source.split('|').find_map(path).filter(|text| text != "-");
            let value =
                if key.ends_with("url.full") { text.and_then(|it| link(&it)) } else { text };
            found.extend(value.map(|value| ((*key).to_owned(), value)));
        }
    }
    found
}

/// Returns an HTTP URL without credentials and parameters; `None` if the text is not one.
fn link(text: &str) -> Option<String> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    Some(url.origin().ascii_serialization() + url.path().trim_end_matches(".git"))
}

#[cfg(test)]
mod tests;
