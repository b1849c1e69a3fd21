"""Validates everything in collector-config/ with the programs that read it.

    python3 tests/stack/validate.py [--config DIR] [--aiperf PATH]

Needs only Python's standard library; everything else is built or installed in target/stack/.
Nothing is skipped: if a program is not available, its checks fail.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import build
import documents

HERE = pathlib.Path(__file__).resolve().parent
DESTINATIONS = (
    "to-file.yaml",
    "to-otlp.yaml",
    "to-prometheus-otlp.yaml",
    "to-prometheus-remote-write.yaml",
    "to-traces.yaml",
)
KUSTOMIZATIONS = (".", "kubernetes/benchmark", "kubernetes/report")
SETTINGS = ("PROMETHEUS_URL", "ONWARD_OTLP_ENDPOINT", "TRACES_OTLP_ENDPOINT", "COLLECTOR_FILE")
PACKAGES = ("kubernetes-validate==1.37.0",)
NOT_CHECKED = (
    "compose.yaml, kubernetes/ and Dockerfile are read by their own parsers but not run: that "
    "takes a container engine and images",
    "a schema for grafana/*.yaml is not published: only Grafana itself could check them",
)


class Fault(Exception):
    """An error found by a check."""


def run(*command, given=None, **environment):
    """The output of `command`; raises a fault if it fails or takes minutes."""
    # The environment of the shell must not affect the result.
    inherited = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    done = subprocess.run(
        list(map(str, command)),
        input=given,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode != 0:
        raise Fault((done.stderr + done.stdout).strip() or f"exit code {done.returncode}")
    return done.stdout


def collector(config, *destinations):
    """The Collector accepts collector.yaml with these destinations."""
    files = [f"--config={config / name}" for name in ("collector.yaml", *destinations)]
    to = "http://localhost:5317"
    run(build.collector(), "validate", *files, ONWARD_OTLP_ENDPOINT=to, TRACES_OTLP_ENDPOINT=to)


def needs_an_address(config, name):
    """`name` requires an address: without one, the Collector must report it."""
    files = [f"--config={config / file}" for file in ("collector.yaml", name)]
    try:
        run(build.collector(), "validate", *files)
    except Fault as fault:
        if "endpoint" in str(fault):
            return
        raise
    raise Fault("it was taken without its variable")


def lines(text):
    """The lines of a YAML text with content."""
    stripped = (line.split(" #")[0].rstrip() for line in text.splitlines())
    return [line for line in stripped if line and not line.lstrip().startswith("#")]


def rules(promtool):
    """Prometheus accepts the recording rules of docs/scaling.md."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(documents.rules(documents.SCALING))
        file.flush()
        run(promtool, "check", "rules", file.name)


def shipped_rules(promtool, file):
    """The alert and recording rules of `file` do what tests/stack/rules.yaml expects."""
    run(promtool, "check", "rules", file)
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as tests:
        tests.write((HERE / "rules.yaml").read_text().replace("RULES", str(file.resolve())))
        tests.flush()
        run(promtool, "test", "rules", tests.name)


def list_under(key, file):
    """The plain list under `key:` in a YAML file."""
    found = re.search(rf"^( *){key}:\n((?:\1 +- .*\n?)+)", file.read_text(), re.MULTILINE)
    if found is None:
        raise Fault(f"{file.name} does not contain a list {key}")
    return [line.strip() for line in found.group(2).splitlines()]


def same_labels(config):
    """All ways exclude the same resource attributes from the labels."""
    lists = {
        "collector.yaml": "excluded",
        "to-prometheus-remote-write.yaml": "excluded",
        "prometheus.yaml": "ignore_resource_attributes",
    }
    found = {name: list_under(key, config / name) for name, key in lists.items()}
    if len(set(map(tuple, found.values()))) != 1:
        raise Fault(f"they differ: {found}")


def same_prometheus(config):
    """prometheus-2.yaml is prometheus.yaml without the section `otlp:`."""
    three = lines((config / "prometheus.yaml").read_text())
    without = three[: three.index("otlp:")]
    if lines((config / "prometheus-2.yaml").read_text()) != without:
        raise Fault("prometheus-2.yaml is not prometheus.yaml without `otlp:`")


def same_versions(config):
    """The versions of images are those that are built and tested here."""
    (version,) = set(re.findall(r"/cmd/builder@v([\d.]+)", (config / "builder.yaml").read_text()))
    # The module version v0.315.0 is the release 3.15.0.
    _, minor, patch = build.PROMETHEUS.split(".")
    prometheus = f"3.{int(minor) - 300}.{patch}"
    wanted = {
        "compose.yaml": (f"contrib:{version}", f"prom/prometheus:v{prometheus}"),
        "kubernetes/collector.yaml": (f"contrib:{version}",),
    }
    for name, images in wanted.items():
        for image in images:
            if f"{image}\n" not in (config / name).read_text():
                raise Fault(f"{name} does not name the image {image}")


def interpreter():
    """A Python with the packages that check_kubernetes.py imports."""
    venv = build.STACK / "validate-venv"
    python, mark = venv / "bin" / "python", venv / "packages"
    if mark.exists() and mark.read_text() == "\n".join(PACKAGES):
        return python
    run(sys.executable, "-m", "venv", "--clear", venv)
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES)
    mark.write_text("\n".join(PACKAGES))
    return python


def kubernetes(config, aiperf):
    """Kustomize builds the manifests, and they conform to Kubernetes' schemas."""
    made = [run(build.kustomize(), "build", config / name) for name in KUSTOMIZATIONS]
    options = ["--aiperf", aiperf] if aiperf else []
    run(interpreter(), HERE / "check_kubernetes.py", *options, given="\n---\n".join(made))


def checks(config, aiperf):
    """The name and function of each check."""
    yield "collector.yaml", lambda: collector(config)
    for name in DESTINATIONS:
        yield f"collector.yaml with {name}", lambda name=name: collector(config, name)
    yield "collector.yaml with all destinations", lambda: collector(config, *DESTINATIONS)
    for name in ("to-otlp.yaml", "to-traces.yaml"):
        yield f"{name} without an address", lambda name=name: needs_an_address(config, name)
    yield "the same labels by all ways", lambda: same_labels(config)
    two, three = config / "prometheus-2.yaml", config / "prometheus.yaml"
    yield "prometheus-2.yaml by Prometheus 2", lambda: run(build.promtool2(), "check", "config", two)
    yield "prometheus-2.yaml by Prometheus 3", lambda: run(build.promtool3(), "check", "config", two)
    yield "prometheus.yaml by Prometheus 3", lambda: run(build.promtool3(), "check", "config", three)
    yield "the rules of docs/scaling.md by Prometheus 2", lambda: rules(build.promtool2())
    yield "the rules of docs/scaling.md by Prometheus 3", lambda: rules(build.promtool3())
    yield "rules.yaml by Prometheus 2", lambda: shipped_rules(build.promtool2(), config / "rules.yaml")
    yield "rules.yaml by Prometheus 3", lambda: shipped_rules(build.promtool3(), config / "rules.yaml")
    yield "one Prometheus configuration", lambda: same_prometheus(config)
    yield "image versions", lambda: same_versions(config)
    yield "compose.yaml", lambda: run(build.check(), config / "compose.yaml")
    yield "Dockerfile", lambda: run(build.check(), build.ROOT / "Dockerfile")
    yield "kubernetes/", lambda: kubernetes(config, aiperf)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    shipped = build.ROOT / "collector-config"
    parser.add_argument("--config", metavar="DIR", type=pathlib.Path, default=shipped)
    parser.add_argument("--aiperf", metavar="PATH", help="check the Job's flags against this program")
    arguments = parser.parse_args()
    passed = failed = 0
    for name, check in checks(arguments.config, arguments.aiperf):
        try:
            check()
        except (Fault, build.Missing, OSError, ValueError, subprocess.TimeoutExpired) as fault:
            failed += 1
            print(f"FAILED  {name}\n{fault}", flush=True)
        else:
            passed += 1
            print(f"ok      {name}", flush=True)
    flags = () if arguments.aiperf else ("the Job's flags: give --aiperf PATH",)
    for text in (*NOT_CHECKED, *flags):
        print(f"not checked: {text}")
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
