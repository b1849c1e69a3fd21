"""Images of containers, without a program that builds them."""

import hashlib
import io
import json
import tarfile

KINDS = "application/vnd.oci.image"


def write(archive, name, root, entrypoint, user=""):
    """Writes an OCI archive with one layer, the files in `root`; all belong to root."""
    blobs = {}

    def blob(kind, content):
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        blobs[digest.replace(":", "/")] = content
        return {"mediaType": f"{KINDS}.{kind}", "digest": digest, "size": len(content)}

    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as files:
        files.add(root, arcname=".", filter=_of_root)
    layer = blob("layer.v1.tar", layer.getvalue())
    config = blob("config.v1+json", json.dumps({
        "architecture": "amd64", "os": "linux",
        "config": {"Entrypoint": entrypoint, "User": user, "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
    }).encode())  # fmt: skip
    manifest = blob("manifest.v1+json", json.dumps({
        "schemaVersion": 2, "mediaType": f"{KINDS}.manifest.v1+json", "config": config, "layers": [layer],
    }).encode())  # fmt: skip
    manifest["annotations"] = {"io.containerd.image.name": name}
    content = {f"blobs/{name}": blob for name, blob in blobs.items()}
    content["oci-layout"] = b'{"imageLayoutVersion": "1.0.0"}'
    content["index.json"] = json.dumps({"schemaVersion": 2, "manifests": [manifest]}).encode()
    with tarfile.open(archive, mode="w") as files:
        for path, data in content.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            files.addfile(entry, io.BytesIO(data))


def _of_root(entry):
    entry.uid = entry.gid = 0
    return entry
