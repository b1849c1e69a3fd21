"""A Kubernetes of one node on this machine, in a network namespace of its own: the control plane and the
kubelet from one Go program, with Debian's etcd, containerd, runc, network plugins and dnsmasq."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import oci
from processes import Process, StackError, wait_until

# Debian's packages that have the programs.
PROGRAMS = {"etcd": "etcd-server", "containerd": "containerd", "ctr": "containerd", "runc": "runc",
            "dnsmasq": "dnsmasq-base", "iptables": "iptables", "conntrack": "conntrack",
            "ip": "iproute2", "nsenter": "util-linux", "openssl": "openssl", "gcc": "gcc",
            "kubectl": "kubernetes-client"}  # fmt: skip
PLUGINS = pathlib.Path("/usr/lib/cni")
# Addresses that are reserved for documentation: nothing outside the namespace has them.
NODE, PODS, SERVICES = "192.0.2.1", "203.0.113.0/24", "198.51.100.0/24"
NAMESPACE = "aiperf"
PAUSE = """
#include <signal.h>
#include <unistd.h>
static void end(int number) { (void)number; _exit(0); }
int main(void) { signal(SIGTERM, end); signal(SIGINT, end); for (;;) pause(); }
"""

CONTAINERD = """
version = 2
root = "{folder}/containerd"
state = "{folder}/state"
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  # Only a process with CAP_SYS_RESOURCE may lower its own, and not every root has it.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{folder}/cni"
"""

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{{name: one, cluster: {{server: "https://{node}:6443", insecure-skip-tls-verify: true}}}}]
users: [{{name: test, user: {{token: test}}}}]
contexts: [{{name: test, context: {{cluster: one, user: test, namespace: {namespace}}}}}]
current-context: test
"""

KUBELET = """
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://{folder}/containerd.sock
cgroupDriver: cgroupfs
failSwapOn: false
authentication: {{anonymous: {{enabled: true}}, webhook: {{enabled: false}}}}
authorization: {{mode: AlwaysAllow}}
podLogsDir: {folder}/logs
resolvConf: {folder}/resolv.conf
clusterDNS: [{node}]
clusterDomain: cluster.local
enforceNodeAllocatable: []
evictionHard: {{memory.available: "0%", nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%"}}
imageGCHighThresholdPercent: 100
"""


class Cluster:
    """The daemons, and what `kubectl` does with them."""

    def __init__(self, folder, program):
        missing = sorted({package for name, package in PROGRAMS.items() if not _program(name)})
        if os.geteuid() != 0:
            raise StackError("a kubelet needs root")
        if missing or not PLUGINS.is_dir():
            raise StackError(f"install {' '.join(missing)} containernetworking-plugins")
        self.folder = folder
        self.network = f"aiperf-{os.getpid()}"
        self.kubeconfig = folder / "kubeconfig"
        self.volume = folder / "volume"
        self._program = program
        for name in ("cni", "logs", "etcd", "bin", "volume"):
            (folder / name).mkdir()
        # fsGroup does not apply to a directory of the host.
        os.chown(self.volume, 65532, 65532)
        self._files()
        self._network()
        try:
            self._daemons()
        except BaseException:
            self.end()
            raise

    def kubectl(self, *arguments, given=None, seconds=60, check=True):
        """What `kubectl` prints."""
        command = [_program("kubectl"), f"--kubeconfig={self.kubeconfig}", *arguments]
        done = subprocess.run(self._inside(command), input=given, capture_output=True, text=True, timeout=seconds)
        if check and done.returncode != 0:
            raise StackError(f"kubectl {' '.join(map(str, arguments))}: {done.stderr}")
        return done.stdout

    def get(self, *arguments):
        """Objects of the API."""
        return json.loads(self.kubectl("get", *arguments, "--output=json"))

    def pods(self, job):
        """The pods of a Job, also those that were replaced, by the time of their creation."""
        found = self.get("pods", f"--selector=batch.kubernetes.io/job-name={job}")["items"]
        return sorted(found, key=lambda pod: pod["metadata"]["creationTimestamp"])

    def image(self, name, root, entrypoint, user=""):
        """Adds an image with the files of a directory."""
        archive = self.folder / "image.tar"
        oci.write(archive, name, root, entrypoint, user)
        self._ctr("images", "import", archive)
        archive.unlink()

    def resolve(self):
        """Tells the name server the addresses of all Services."""
        lines = []
        for service in self.get("services", "--all-namespaces")["items"]:
            name, where = service["metadata"]["name"], service["metadata"]["namespace"]
            lines.append(f"{service['spec']['clusterIP']} {name}.{where}.svc.cluster.local\n")
        (self.folder / "hosts").write_text("".join(lines))
        self._dns.signal(signal.SIGHUP)

    def processes(self, pod):
        """The processes of this machine that are those of a pod, without its pause."""
        found = []
        uid = pod["metadata"]["uid"]
        for process in pathlib.Path("/proc").iterdir():
            try:
                if process.name.isdigit() and uid in (process / "cgroup").read_text():
                    if (process / "comm").read_text().strip() != "pause":
                        found.append(int(process.name))
            except OSError:
                continue
        return found

    def end(self):
        """Ends all pods and daemons, and removes what they left in the kernel."""
        if self.kubeconfig.exists():
            try:
                self.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=60s", seconds=90)
            except (StackError, subprocess.TimeoutExpired) as error:
                print(error)
        for line in self._ctr("tasks", "ls", "-q", check=False).split():
            self._ctr("tasks", "rm", "--force", line, check=False)
        time.sleep(1)
        Process.kill_all()
        for process in pathlib.Path("/proc").iterdir():
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            # Shims of containers survive containerd.
            if b"shim" in words[0] and f"{self.folder}/containerd.sock".encode() in words:
                os.kill(int(process.name), signal.SIGKILL)
        mounts = [line.split()[1] for line in open("/proc/mounts")]
        for mount in reversed([mount for mount in mounts if mount.startswith(f"{self.folder}/")]):
            subprocess.run(["umount", "--lazy", mount], check=False)
        subprocess.run(["ip", "netns", "del", self.network], check=False)

    def _files(self):
        folder = self.folder
        (folder / "containerd.toml").write_text(CONTAINERD.format(folder=folder, plugins=PLUGINS))
        bridge = {"type": "bridge", "bridge": "pods", "isGateway": True, "hairpinMode": True,
                  "ipam": {"type": "host-local", "ranges": [[{"subnet": PODS}]],
                           "routes": [{"dst": "0.0.0.0/0"}], "dataDir": str(folder / "addresses")}}  # fmt: skip
        network = {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]}
        (folder / "cni/10-pods.conflist").write_text(json.dumps(network))
        self.kubeconfig.write_text(KUBECONFIG.format(node=NODE, namespace=NAMESPACE))
        (folder / "kubelet.yaml").write_text(KUBELET.format(folder=folder, node=NODE))
        (folder / "tokens").write_text("test,test,test,system:masters\n")
        for name in ("resolv.conf", "hosts"):
            (folder / name).write_text("")
        _run("openssl", "genrsa", "-out", folder / "accounts.key", "2048")
        for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet"):
            (folder / "bin" / name).symlink_to(self._program)

    def _network(self):
        """A namespace without a way out, whose node has an address."""
        _run("ip", "netns", "add", self.network)
        for command in ("ip link set lo up", "ip link add node type veth peer name other",
                        "ip link set node up", "ip link set other up",
                        f"ip address add {NODE}/24 dev node", "ip route add default dev node"):  # fmt: skip
            _run(*self._inside(command.split()))

    def _daemons(self):
        folder, config = self.folder, f"--kubeconfig={self.kubeconfig}"
        self._start("containerd", "--config", folder / "containerd.toml")
        socket = folder / "containerd.sock"
        wait_until("containerd has its socket", socket.exists)
        self._pause()
        etcd = self._start("etcd", "--data-dir", folder / "etcd", "--unsafe-no-fsync")
        self._dns = self._start(
            "dnsmasq", "--keep-in-foreground", "--no-resolv", "--no-hosts", "--user=root", "--pid-file",
            f"--addn-hosts={folder}/hosts", f"--listen-address={NODE}", "--bind-interfaces",
            "--local=/cluster.local/", "--conf-file=/dev/null")  # fmt: skip
        server = self._start(
            "kube-apiserver", "--etcd-servers=http://127.0.0.1:2379", f"--cert-dir={folder}/certs",
            f"--bind-address={NODE}", f"--advertise-address={NODE}", f"--service-cluster-ip-range={SERVICES}",
            f"--token-auth-file={folder}/tokens", "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={folder}/accounts.key",
            f"--service-account-signing-key-file={folder}/accounts.key",
            "--kubelet-preferred-address-types=InternalIP")  # fmt: skip
        ready = lambda: self.kubectl("get", "--raw=/readyz", check=False) == "ok"  # noqa: E731
        wait_until("the API server is ready", ready, seconds=120, alive=[etcd, server])
        asks = [config, "--leader-elect=false", "--authentication-skip-lookup",
                f"--authentication-{config[2:]}", f"--authorization-{config[2:]}"]  # fmt: skip
        self._start("kube-controller-manager", *asks, f"--cert-dir={folder}/certs-manager",
                    f"--service-account-private-key-file={folder}/accounts.key")  # fmt: skip
        self._start("kube-scheduler", *asks, f"--cert-dir={folder}/certs-scheduler")
        self._start("kube-proxy", config, "--proxy-mode=iptables", "--hostname-override=node",
                    f"--cluster-cidr={PODS}", "--masquerade-all", "--conntrack-max-per-core=0")  # fmt: skip
        kubelet = self._start(
            "kubelet", config, f"--config={folder}/kubelet.yaml", "--hostname-override=node",
            f"--node-ip={NODE}", f"--root-dir={folder}/kubelet", f"--cert-dir={folder}/certs-kubelet")  # fmt: skip
        wait_until("the node is ready", self._is_ready, seconds=120, alive=[kubelet])

    def _is_ready(self):
        nodes = self.get("nodes")["items"]
        return any(one["type"] == "Ready" and one["status"] == "True"
                   for node in nodes for one in node["status"]["conditions"])  # fmt: skip

    def _pause(self):
        root = self.folder / "pause"
        root.mkdir()
        _run("gcc", "-static", "-Os", "-o", root / "pause", "-xc", "-", given=PAUSE)
        self.image("localhost/pause:1", root, ["/pause"], "65535:65535")

    def _start(self, name, *flags):
        own = self.folder / "bin" / name
        command = self._inside([own if own.exists() else _program(name), *flags])
        return Process(name, command, self.folder / f"{name}.log")

    def _inside(self, command):
        return [_program("nsenter"), f"--net=/run/netns/{self.network}", *command]

    def _ctr(self, *arguments, check=True):
        return _run("ctr", "--address", self.folder / "containerd.sock", "--namespace", "k8s.io",
                    *arguments, check=check)  # fmt: skip


def _run(program, *arguments, given=None, check=True):
    """What a program prints."""
    command = [str(part) for part in (_program(program) or program, *arguments)]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=120)
    if check and done.returncode != 0:
        raise StackError(f"{' '.join(command)}: {done.stderr}")
    return done.stdout


def _program(name):
    return shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin:/usr/local/sbin")
