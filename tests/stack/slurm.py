"""A Slurm of this machine, from Debian's packages: two nodes of one host."""

import getpass
import os
import re
import shutil
import signal
import socket
import subprocess
from pathlib import Path

from processes import Process, StackError, free_port, wait_until

NODES = 2
# More than the machine has, so that all jobs of the test run at the same time.
CPUS = 16

CONFIGURATION = """
ClusterName=aiperf
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,sched_min_interval=100000,batch_sched_delay=0
ReturnToService=2
KillWait=5
{nodes}
PartitionName=all Nodes=ALL Default=YES State=UP OverSubscribe=FORCE:4
"""


class Slurm:
    """The daemons of a cluster, and its jobs."""

    def __init__(self, folder):
        missing = [name for name in ("munged", "slurmctld", "slurmd", "srun") if not _program(name)]
        if missing:
            names = ", ".join(missing)
            raise StackError(f"{names} missing: install Debian's slurm-wlm and munge (scripts/tools)")
        self.folder = folder
        self.jobs = folder / "jobs"
        for name in ("state", "jobs", *(f"spool-n{node}" for node in range(1, NODES + 1))):
            (folder / name).mkdir(parents=True)
        host = socket.gethostname().split(".")[0]
        node = "NodeName=n{} NodeHostname={} NodeAddr=127.0.0.1 Port={} CPUs={}"
        nodes = [node.format(number, host, free_port(), CPUS) for number in range(1, NODES + 1)]
        self.configuration = folder / "slurm.conf"
        self.configuration.write_text(CONFIGURATION.format(
            host=host, folder=folder, user=getpass.getuser(), controller=free_port(), nodes="\n".join(nodes)))  # fmt: skip
        self._start_munge()
        environment = {"SLURM_CONF": str(self.configuration)}
        daemons = {"slurmctld": ["slurmctld", "-D"]}
        daemons |= {f"n{node}": ["slurmd", "-D", "-N", f"n{node}"] for node in range(1, NODES + 1)}
        for name, (program, *flags) in daemons.items():
            command = [_program(program), *flags, "-f", self.configuration]
            Process(name, command, folder / f"{name}.out", environment)
        idle = lambda: self._run("sinfo", "-h", "-t", "idle", "-o", "%D", seconds=2).strip() == str(NODES)  # noqa: E731
        wait_until("the nodes of Slurm are idle", idle, seconds=60)

    def _start_munge(self):
        """A munge of its own, with its own key and socket, as the user of this process."""
        key = self.folder / "munge.key"
        key.write_bytes(bytes(range(256)) * 4)
        key.chmod(0o400)
        # It refuses directories that others may write to.
        names = {"socket": "munge.socket", "pid-file": "munge.pid", "log-file": "munge.log",
                 "seed-file": "munge.seed", "key-file": "munge.key"}  # fmt: skip
        flags = [f"--{flag}={self.folder / name}" for flag, name in names.items()]
        command = [_program("munged"), "--foreground", "--force", *flags]
        munge = Process("munged", command, self.folder / "munged.out")
        socket_file = self.folder / "munge.socket"
        wait_until("munge has its socket", socket_file.exists, alive=[munge])

    def submit(self, name, script, *arguments, environment=None):
        """Submits a batch script with these arguments; returns the ID of the job."""
        path = self.jobs / f"{name}.sh"
        path.write_text(script)
        said = self._run("sbatch", "--chdir", self.jobs, path, *arguments, environment=environment)
        return re.search(r"Submitted batch job (\d+)", said).group(1)

    def requeue(self, job):
        """Ends a job and starts it again."""
        self._run("scontrol", "requeue", job)

    def states(self, job):
        """The states of a job, or of each task of an array."""
        said = self._run("scontrol", "show", "job", job)
        return re.findall(r"JobState=(\S+)", said)

    def wait(self, job, seconds=180):
        """Waits until a job has ended, and returns its states."""
        running = {"PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "REQUEUED"}
        over = lambda: not running & set(self.states(job))  # noqa: E731
        wait_until(f"job {job} ends", over, seconds)
        return self.states(job)

    def end(self):
        """Kills all tasks, which would go on without the daemons."""
        for process, variables in _processes():
            if variables.get("SLURM_CONF") == str(self.configuration):
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def _run(self, program, *arguments, seconds=20, environment=None):
        command = [str(part) for part in (_program(program), *arguments)]
        # The variables of the test's own environment are not those of the jobs.
        variables = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "SLURM_CONF": str(self.configuration)}
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds,
                              env={**variables, **(environment or {})})  # fmt: skip
        if done.returncode != 0 and program != "sinfo":
            raise StackError(f"{' '.join(command)}: {done.stderr}")
        return done.stdout


def tasks(program, job):
    """The processes of `program` that are tasks of a job, by their number."""
    found = {}
    for process, variables in _processes():
        is_task = variables.get("SLURM_JOB_ID") == job and "SLURM_STEP_ID" in variables
        if is_task and Path(f"/proc/{process}/exe").readlink() == program:
            found[int(variables["SLURM_PROCID"])] = process
    return found


def _processes():
    """The processes of this machine, with their environment."""
    for process in Path("/proc").iterdir():
        try:
            pairs = (process / "environ").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if process.name.isdigit():
            yield int(process.name), dict(pair.split("=", 1) for pair in pairs if "=" in pair)


def _program(name):
    """Where a program is: Debian has the daemons in sbin."""
    return shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin:/usr/local/sbin")
