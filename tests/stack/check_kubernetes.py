"""Checks manifests, from standard input, against Kubernetes' schemas and each other.

    kustomize build DIR | python check_kubernetes.py [--aiperf PATH]

Needs `kubernetes-validate`, which contains the schemas. With --aiperf, each flag of a container
of the image aiperf must be supported by that program.
"""

import argparse
import re
import subprocess
import sys

import kubernetes_validate
import yaml

VERSION = "1.37"


def faults(manifests, flags):
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
            yield from container_faults(container, pod["spec"], names, flags)


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


def container_faults(container, pod, names, flags):
    """A container's variables, volumes and flags must exist."""
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
    if container["image"].split(":")[0] != "aiperf" or flags is None:
        return
    for argument in container["args"]:
        flag = argument.split("=")[0]
        if flag.startswith("--") and flag not in flags:
            yield f"{name}: {flag} is not a flag of aiperf"


def known_flags(program):
    """The flags of `aiperf profile`."""
    done = subprocess.run([program, "profile", "--help"], capture_output=True, text=True, timeout=30)
    return set(re.findall(r"--[a-z][a-z0-9-]*", done.stdout))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--aiperf", metavar="PATH", help="the program whose flags are known")
    arguments = parser.parse_args()
    manifests = [item for item in yaml.safe_load_all(sys.stdin) if item]
    if not manifests:
        sys.exit("no manifests on standard input")
    found = list(faults(manifests, known_flags(arguments.aiperf) if arguments.aiperf else None))
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
