"""Builds, or finds, the programs that the stack test runs.

    collector()     the Collector of collector-config/builder.yaml
    prometheus3()   Prometheus 3, from its Go module
    prometheus2()   the Prometheus of the Linux distribution
    kubernetes()    Kubernetes in one program, only for check_cluster.py

and, for validate.py, promtool3(), promtool2(), kustomize() and check().

Each returns the path of the program or raises `Missing`, which explains what to do. Results are
stored in target/stack/, in a directory whose name is derived from all inputs, so a second call
builds nothing. `python3 tests/stack/build.py` builds everything except Kubernetes.
"""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MANIFEST = ROOT / "collector-config" / "builder.yaml"
STACK = ROOT / "target" / "stack"

GO = (1, 26, 8)
PROMETHEUS = "v0.315.0"
# Only file and static service discovery: the others are most of the program.
PROMETHEUS_TAGS = "remove_all_sd"
KUSTOMIZE = "v5.8.2"
KUBERNETES = "v1.33.13"
CHECK = pathlib.Path(__file__).resolve().parent / "check"
ONE_PROGRAM = pathlib.Path(__file__).resolve().parent / "kubernetes" / "main.go"
BUILD_SECONDS = 3600


class Missing(Exception):
    """A program is not available; the text explains what to do."""


def go():
    """Go, in a version that can build everything."""
    found = shutil.which("go") or "/usr/local/go/bin/go"
    wanted = ".".join(map(str, GO))
    if not os.access(found, os.X_OK):
        raise Missing(f"go is missing: install Go {wanted} or later and put it on the PATH")
    version = go_version(found)
    if version < GO:
        have = ".".join(map(str, version))
        raise Missing(f"{found} is Go {have}: install Go {wanted} or later")
    return found


def go_version(program):
    """The version numbers of `program`."""
    text = run([program, "env", "GOVERSION"], ROOT)
    return tuple(int(number) for number in re.findall(r"\d+", text)[:3])


def environment():
    """Use only the installed toolchain, and make modules deletable with `rm`."""
    flags = os.environ.get("GOFLAGS", "")
    if "-modcacherw" not in flags:
        flags = f"{flags} -modcacherw".strip()
    return {**os.environ, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOFLAGS": flags}


def run(command, folder, **more):
    """The output of `command`; raises `Missing` with the end of its output if it fails."""
    try:
        done = subprocess.run(
            list(map(str, command)),
            cwd=folder,
            env={**environment(), **more},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=BUILD_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise Missing(f"{command[0]} took longer than {BUILD_SECONDS} s") from None
    if done.returncode != 0:
        end = "\n".join(done.stdout.splitlines()[-20:])
        raise Missing(f"failed: {' '.join(map(str, command))}\n{end}")
    return done.stdout


def cached(name, parts, build):
    """The program `name` built by `build(folder)`, or an earlier build from the same `parts`."""
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
    folder = STACK / f"{name}-{key}"
    program = folder / name
    if program.exists():
        return program
    print(f"building {name} into {folder}", flush=True)
    begun = time.monotonic()
    # Renamed when complete, so that an interrupted build is not used.
    attempt = folder.with_name(f"{folder.name}.{os.getpid()}")
    shutil.rmtree(attempt, ignore_errors=True)
    attempt.mkdir(parents=True)
    try:
        build(attempt)
        shutil.rmtree(folder, ignore_errors=True)
        attempt.rename(folder)
    finally:
        shutil.rmtree(attempt, ignore_errors=True)
    print(f"built {name} in {time.monotonic() - begun:.0f} s", flush=True)
    return program


def collector():
    """The Collector defined by `collector-config/builder.yaml`."""
    manifest = MANIFEST.read_text()
    version = re.search(r"cmd/builder@(v[\d.]+)", manifest).group(1)
    compiler = go()

    def build(folder):
        shutil.copy(MANIFEST, folder / "builder.yaml")
        builder = f"go.opentelemetry.io/collector/cmd/builder@{version}"
        path = f"{pathlib.Path(compiler).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        run([compiler, "run", builder, "--config", "builder.yaml"], folder, PATH=path)
        (folder / "build" / "otelcol-aiperf").rename(folder / "otelcol-aiperf")
        shutil.rmtree(folder / "build")

    return cached("otelcol-aiperf", [manifest, run([compiler, "env", "GOVERSION"], ROOT)], build)


def prometheus3():
    """Prometheus 3 without its web pages and most service discoveries."""
    return prometheus3_program("prometheus")


def promtool3():
    """Prometheus 3's promtool, which checks configuration files."""
    return prometheus3_program("promtool")


def prometheus3_program(name):
    """A program of the module of Prometheus 3, with the versions that the module requires.

    `go install` rejects a module with replacements; from a module of our own, the program is a
    normal package.
    """
    compiler = go()
    module = (
        "module stack\n\ngo 1.26.0\n\n"
        f"require github.com/prometheus/prometheus {PROMETHEUS}\n"
    )
    package = f"github.com/prometheus/prometheus/cmd/{name}"
    parts = [module, package, PROMETHEUS_TAGS, run([compiler, "env", "GOVERSION"], ROOT)]

    def build(folder):
        (folder / "go.mod").write_text(module)
        options = ["-mod=mod", "-tags", PROMETHEUS_TAGS, "-ldflags", "-s -w", "-o", name]
        run([compiler, "build", *options, package], folder)

    return cached(name, parts, build)


def kustomize():
    """Kustomize, which builds Kubernetes manifests."""
    compiler = go()
    package = f"sigs.k8s.io/kustomize/kustomize/v5@{KUSTOMIZE}"
    install = [compiler, "install", "-ldflags", "-s -w", package]
    parts = [package, run([compiler, "env", "GOVERSION"], ROOT)]
    return cached("kustomize", parts, lambda folder: run(install, folder, GOBIN=str(folder)))


def kubernetes():
    """The control plane, the proxy and the kubelet; the name by which it is called says which.

    The module replaces its own parts by directories; here they are the modules of the same release.
    """
    compiler = go()
    source = ONE_PROGRAM.read_text()
    parts = [KUBERNETES, source, run([compiler, "env", "GOVERSION"], ROOT)]

    def build(folder):
        found = run([compiler, "mod", "download", "-json", f"k8s.io/kubernetes@{KUBERNETES}"], folder)
        required = pathlib.Path(json.loads(found)["GoMod"]).read_text()
        modules = re.findall(r"(k8s\.io/\S+) => \./staging", required)
        version = KUBERNETES.replace("v1", "v0", 1)
        replaced = "".join(f"replace {module} => {module} {version}\n" for module in modules)
        module = f"module stack\n\ngo 1.24.0\n\nrequire k8s.io/kubernetes {KUBERNETES}\n\n{replaced}"
        (folder / "go.mod").write_text(module)
        (folder / "main.go").write_text(source)
        run([compiler, "mod", "tidy"], folder)
        # The kubelet compares its version with that of the API server.
        stamp = f"-X k8s.io/component-base/version.gitVersion={KUBERNETES}"
        run([compiler, "build", "-trimpath", "-ldflags", f"-s -w {stamp}", "-o", "kubernetes", "."], folder)

    return cached("kubernetes", parts, build)


def check():
    """The program in check/, which parses Compose files and Dockerfiles."""
    compiler = go()
    sources = [(CHECK / name).read_text() for name in ("go.mod", "go.sum", "main.go")]
    parts = [*sources, run([compiler, "env", "GOVERSION"], ROOT)]
    return cached("check", parts, lambda folder: run([compiler, "build", "-o", folder], CHECK))


def prometheus2():
    """The Prometheus 2 on the PATH."""
    return of_distribution("prometheus")


def promtool2():
    """The promtool next to it."""
    return of_distribution("promtool")


def of_distribution(name):
    """A program of the package `prometheus`, with major version 2."""
    found = shutil.which(name)
    if found is None:
        raise Missing(f"{name} is missing: apt-get install prometheus")
    version = re.search(r"version (\d+)\.", run([found, "--version"], ROOT))
    if version is None or version.group(1) != "2":
        raise Missing(f"{found} is not Prometheus 2: apt-get install prometheus, first on the PATH")
    return pathlib.Path(found)


def main():
    """Builds everything."""
    for program in (collector, prometheus3, promtool3, kustomize, check, prometheus2, promtool2):
        print(program())


if __name__ == "__main__":
    try:
        main()
    except Missing as missing:
        sys.exit(f"missing: {missing}")
