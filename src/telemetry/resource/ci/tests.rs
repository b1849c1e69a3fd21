use std::collections::BTreeMap;

use super::*;

/// Returns the attributes of a job with these variables, as text.
fn attributes_for(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
    let lookup = |name: &str| {
        variables.iter().find(|(have, _)| *have == name).map(|(_, value)| (*value).to_owned())
    };
    ci_job(Environment::new(&lookup))
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// The variables of a pull request, from GitHub's documentation "Variables reference".
const PULL_REQUEST: [(&str, &str); 13] = [
    ("GITHUB_ACTIONS", "true"),
    ("GITHUB_WORKFLOW", "bench"),
    ("GITHUB_RUN_ID", "1658821493"),
    ("GITHUB_SERVER_URL", "https://github.com"),
    ("GITHUB_REPOSITORY", "octocat/Hello-World"),
    ("GITHUB_REPOSITORY_OWNER", "octocat"),
    ("GITHUB_JOB", "greeting_job"),
    ("RUNNER_NAME", "Hosted Agent"),
    ("GITHUB_SHA", "ffac537e6cbbf934b08745a378932722df287a53"),
    ("GITHUB_REF", "refs/pull/7/merge"),
    ("GITHUB_REF_NAME", "7/merge"),
    ("GITHUB_HEAD_REF", "feature-1"),
    ("GITHUB_BASE_REF", "main"),
];

#[test]
fn a_pull_request_on_github() {
    let expected = map(&[
        ("cicd.pipeline.name", "bench"),
        ("cicd.pipeline.run.id", "1658821493"),
        (
            "cicd.pipeline.run.url.full",
            "https://github.com/octocat/Hello-World/actions/runs/1658821493",
        ),
        ("cicd.pipeline.task.name", "greeting_job"),
        ("cicd.worker.name", "Hosted Agent"),
        ("vcs.provider.name", "github"),
        ("vcs.repository.url.full", "https://github.com/octocat/Hello-World"),
        ("vcs.owner.name", "octocat"),
        ("vcs.ref.head.name", "feature-1"),
        ("vcs.ref.head.revision", "ffac537e6cbbf934b08745a378932722df287a53"),
        ("vcs.ref.base.name", "main"),
    ]);
    assert_eq!(attributes_for(&PULL_REQUEST), expected);
}

#[test]
fn gitea_has_githubs_variables_and_its_own_name() {
    let variables = [&PULL_REQUEST[..], &[("GITEA_ACTIONS", "true")]].concat();
    let found = attributes_for(&variables);
    assert_eq!(found["vcs.provider.name"], "gitea");
    assert_eq!(found["cicd.pipeline.name"], "bench");
}

#[test]
fn a_tag_on_gitlab() {
    let found = attributes_for(&[
        ("GITLAB_CI", "true"),
        ("CI_PIPELINE_ID", "17"),
        ("CI_PIPELINE_URL", "https://gitlab.example.com/group/app/-/pipelines/17"),
        ("CI_JOB_NAME", "bench"),
        ("CI_JOB_ID", "290"),
        ("CI_JOB_URL", "https://gitlab.example.com/group/app/-/jobs/290"),
        ("CI_RUNNER_ID", "5"),
        ("CI_PROJECT_URL", "https://gitlab.example.com/group/app"),
        ("CI_PROJECT_NAME", "app"),
        ("CI_PROJECT_NAMESPACE", "group"),
        ("CI_COMMIT_REF_NAME", "v1.2"),
        ("CI_COMMIT_TAG", "v1.2"),
        ("CI_COMMIT_SHA", "1ecfd275763eff1d6b4844ea3168962458c9f27a"),
    ]);
    let expected = map(&[
        ("cicd.pipeline.run.id", "17"),
        ("cicd.pipeline.run.url.full", "https://gitlab.example.com/group/app/-/pipelines/17"),
        ("cicd.pipeline.task.name", "bench"),
        ("cicd.pipeline.task.run.id", "290"),
        ("cicd.pipeline.task.run.url.full", "https://gitlab.example.com/group/app/-/jobs/290"),
        ("cicd.worker.id", "5"),
        ("vcs.provider.name", "gitlab"),
        ("vcs.repository.url.full", "https://gitlab.example.com/group/app"),
        ("vcs.repository.name", "app"),
        ("vcs.owner.name", "group"),
        ("vcs.ref.head.name", "v1.2"),
        ("vcs.ref.head.revision", "1ecfd275763eff1d6b4844ea3168962458c9f27a"),
    ]);
    assert_eq!(found, expected);
}

/// Names and values.
type Pairs = &'static [(&'static str, &'static str)];

/// The variables of a job, and the attributes.
const JOBS: [(Pairs, Pairs); 5] = [
    (
        &[
            ("JENKINS_URL", "https://ci/"),
            ("JOB_NAME", "bench"),
            ("BUILD_TAG", "jenkins-bench-12"),
            ("BUILD_URL", "https://ci/job/bench/12/"),
            ("NODE_NAME", "built-in"),
            ("GIT_URL", "https://bot:hunter2@git.example.com/team/app.git"),
            ("GIT_BRANCH", "origin/main"),
            ("GIT_COMMIT", "abc"),
        ],
        &[
            ("cicd.pipeline.name", "bench"),
            ("cicd.pipeline.run.id", "jenkins-bench-12"),
            ("cicd.pipeline.run.url.full", "https://ci/job/bench/12/"),
            ("cicd.worker.name", "built-in"),
            ("vcs.repository.url.full", "https://git.example.com/team/app"),
            ("vcs.ref.head.name", "origin/main"),
            ("vcs.ref.head.revision", "abc"),
        ],
    ),
    (
        &[
            ("TF_BUILD", "True"),
            ("BUILD_DEFINITIONNAME", "bench"),
            ("BUILD_BUILDID", "41"),
            ("AGENT_ID", "8"),
            ("BUILD_REPOSITORY_URI", "https://org@dev.azure.com/org/app"),
            ("BUILD_SOURCEBRANCHNAME", "main"),
            ("BUILD_SOURCEVERSION", "abc"),
        ],
        &[
            ("cicd.pipeline.name", "bench"),
            ("cicd.pipeline.run.id", "41"),
            ("cicd.worker.id", "8"),
            ("vcs.repository.url.full", "https://dev.azure.com/org/app"),
            ("vcs.ref.head.name", "main"),
            ("vcs.ref.head.revision", "abc"),
        ],
    ),
    (
        &[
            ("BUILDKITE", "true"),
            ("BUILDKITE_BUILD_ID", "4735ba57"),
            ("BUILDKITE_REPO", "git@github.com:acme/app.git"),
            ("BUILDKITE_BRANCH", "main"),
        ],
        &[("cicd.pipeline.run.id", "4735ba57"), ("vcs.ref.head.name", "main")],
    ),
    (
        &[
            ("CIRCLECI", "true"),
            ("CIRCLE_WORKFLOW_ID", "w"),
            ("CIRCLE_JOB", "bench"),
            ("CIRCLE_REPOSITORY_URL", "ssh://git@github.com:22/acme/app.git"),
            ("CIRCLE_TAG", "v2"),
        ],
        &[
            ("cicd.pipeline.run.id", "w"),
            ("cicd.pipeline.task.name", "bench"),
            ("vcs.ref.head.name", "v2"),
        ],
    ),
    (
        &[
            ("BITBUCKET_BUILD_NUMBER", "3"),
            ("BITBUCKET_PIPELINE_UUID", "{1b}"),
            ("BITBUCKET_GIT_HTTP_ORIGIN", "http://bitbucket.org/acme/app"),
            ("BITBUCKET_BRANCH", "main"),
            ("BITBUCKET_PR_ID", "9"),
        ],
        &[
            ("cicd.pipeline.run.id", "{1b}"),
            ("vcs.provider.name", "bitbucket"),
            ("vcs.repository.url.full", "http://bitbucket.org/acme/app"),
            ("vcs.ref.head.name", "main"),
            ("vcs.change.id", "9"),
        ],
    ),
];

#[test]
fn jenkins_azure_buildkite_circleci_and_bitbucket() {
    for (variables, expected) in JOBS {
        assert_eq!(attributes_for(variables), map(expected), "{}", variables[0].0);
    }
}

#[test]
fn without_a_ci_system_nothing_is_stated() {
    assert!(attributes_for(&[("CI", "true"), ("GITHUB_SHA", "abc"), ("JOB_NAME", "x")]).is_empty());
}

#[test]
fn addresses_that_are_not_of_the_web_are_left_out() {
    let addresses =
        ["git@github.com:acme/app.git", "/srv/git/app.git", "file:///srv/app", "git", "https://"];
    for address in addresses {
        assert_eq!(link(address), None, "{address}");
    }
}

#[test]
fn each_runs_own_values_are_told_apart() {
    let of_run: Vec<_> =
        attributes_for(&PULL_REQUEST).into_keys().filter(|key| is_of_each_run(key)).collect();
    assert_eq!(of_run, ["cicd.pipeline.run.id", "cicd.pipeline.run.url.full"]);
}
