"""Checks manifests, from standard input, against Kubernetes' schemas and each other.

    kustomize build DIR | python check_kubernetes.py [--aiperf PATH]

Needs `kubernetes-validate`, which contains the schemas. The image aiperf contains a single program,
so its containers have arguments, and no command. With --aiperf, that program must support each flag.
"""

import argparse
import re
import subprocess
import sys

import kubernetes_validate
import yaml

VERSION = "1.37"


def faults(manifests, program):
    """The errors, one sentence each."""
    names = {(item["kind"], item["metadata"]["name"]) for item in manifests}
    pods = [item["spec"]["template"] for item in manifests if "template" in item.get("spec", {})]
    for item in manifests:
        name = f"{item['kind']} {item['metadata']['name']}"
        try:
            kubernetes_validate.validate(item, VERSION, strict=True)
        except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as error:
            yield f"{name}: {getattr(error, 'message', error)}"
        if item["kind"] == "Service":
            yield from service_faults(name, item["spec"], pods)
    for pod in pods:
        for container in pod["spec"]["containers"]:
            yield from container_faults(container, pod["spec"], names)
            if container["image"].split(":")[0] == "aiperf":
                yield from aiperf_faults(container, program)
    yield from shard_faults(manifests)


def service_faults(name, service, pods):
    """A service must select a pod, and its ports must be those of the pod."""
    selected = [
        pod for pod in pods if service["selector"].items() <= pod["metadata"]["labels"].items()
    ]
    if not selected:
        yield f"{name}: selects no pod"
    for pod in selected:
        ports = {port["name"] for c in pod["spec"]["containers"] for port in c.get("ports", [])}
        for port in service["ports"]:
            if port["targetPort"] not in ports:
                yield f"{name}: no container has a port {port['targetPort']}"


def container_faults(container, pod, names):
    """A container's variables and volumes must exist."""
    name = f"container {container['name']}"
    volumes = {volume["name"]: volume for volume in pod.get("volumes", [])}
    for mount in container.get("volumeMounts", []):
        if mount["name"] not in volumes:
            yield f"{name}: mounts no volume {mount['name']}"
    sources = [volume.get("configMap") for volume in volumes.values()]
    sources += [source.get("configMapRef") for source in container.get("envFrom", [])]
    for source in filter(None, sources):
        if ("ConfigMap", source["name"]) not in names:
            yield f"{name}: there is no ConfigMap {source['name']}"
    for claim in (volume.get("persistentVolumeClaim") for volume in volumes.values()):
        if claim and ("PersistentVolumeClaim", claim["claimName"]) not in names:
            yield f"{name}: the claim {claim['claimName']} does not exist"


def aiperf_faults(container, program):
    """The image does not have a shell, and the program must support the flags."""
    name = f"container {container['name']}"
    if "command" in container:
        yield f"{name}: the image contains only aiperf, but a command is set"
    if program is None:
        return
    subcommand, *arguments = container["args"]
    flags = known_flags(program, subcommand)
    for argument in arguments:
        flag = argument.split("=")[0]
        if flag.startswith("--") and flag not in flags:
            yield f"{name}: {flag} is not a flag of aiperf {subcommand}"


def known_flags(program, subcommand):
    """The flags of a subcommand of aiperf."""
    done = subprocess.run([program, subcommand, "--help"], capture_output=True, text=True, timeout=30)
    return set(re.findall(r"--[a-z][a-z0-9-]*", done.stdout))


def shard_faults(manifests):
    """The report must combine the directories of all shards, and no others."""
    jobs = {item["metadata"]["name"]: item for item in manifests if item["kind"] == "Job"}
    if not {"aiperf", "aiperf-report"} <= jobs.keys():
        return
    (report,) = jobs["aiperf-report"]["spec"]["template"]["spec"]["containers"]
    shards = range(jobs["aiperf"]["spec"]["completions"])
    combined = [argument for argument in report["args"][1:] if not argument.startswith("--")]
    if combined != [f"/artifacts/$(RUN)/shard-{shard}" for shard in shards]:
        yield f"Job aiperf-report: combines {combined}, but there are {len(shards)} shards"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--aiperf", metavar="PATH", help="the program whose flags are known")
    arguments = parser.parse_args()
    manifests = [item for item in yaml.safe_load_all(sys.stdin) if item]
    if not manifests:
        sys.exit("no manifests on standard input")
    found = list(faults(manifests, arguments.aiperf))
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
