"""CPUs and memory that a scheduler or a container leaves a process: on faked cgroups, and on a real affinity."""

import os
import shutil
import subprocess
import sys
from collections import namedtuple

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core import allotted
from smoothsweep.core.allotted import allotted_cpus, available_memory

MIB, PERIOD = 2**20, 100_000
UNLIMITED = {1: "9223372036854771712", 2: "max"}
MANY = 64  # CPUs of the machine of these tests


@pytest.fixture(autouse=True)
def large_machine(monkeypatch):
    """64 CPUs and 100 GiB free, so that what counts are the groups."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(MANY)), raising=False)
    monkeypatch.delenv(allotted.SLURM_CPUS, raising=False)
    memory = namedtuple("memory", "available")(100 * 1024 * MIB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)


def tree(root, version, groups, *, own, mounted="/", place=None):
    """A faked /proc and hierarchy. groups: path within the mount -> (CPUs or None, MiB or None, used, inactive)."""
    proc = root / "proc/self"
    proc.mkdir(parents=True)
    if version == 2:
        place = place or "/sys/fs/cgroup"
        (proc / "cgroup").write_text(f"0::{own}\n")
        mounts = [(place, "cgroup2 cgroup2 rw,nsdelegate")]
    else:
        place = place or "/sys/fs/cgroup"
        (proc / "cgroup").write_text(f"9:name=systemd:/elsewhere\n5:memory:{own}\n4:cpu,cpuacct:{own}\n0::/unified\n")
        mounts = [
            (f"{place}/cpu,cpuacct", "cgroup cgroup rw,cpu,cpuacct"),
            (f"{place}/memory", "cgroup cgroup rw,memory"),
            (f"{place}/unified", "cgroup2 cgroup2 rw"),
            (f"{place}/systemd", "cgroup cgroup rw,name=systemd"),
        ]
    lines = [
        f"{number} 1 0:{number} {mounted} {where.replace(' ', chr(92) + '040')} rw,nosuid shared:9 - {kind}"
        for number, (where, kind) in enumerate(mounts, start=20)
    ]
    (proc / "mountinfo").write_text("\n".join(["10 1 8:1 / / rw - ext4 /dev/vda rw", *lines]) + "\n")
    for path, limits in groups.items():
        write_group(root, version, place, path, *limits)
    return root


def write_group(root, version, place, path, cpus, memory, used=0, inactive=0):
    quota = "max" if cpus is None and version == 2 else "-1" if cpus is None else str(int(cpus * PERIOD))
    allowed = UNLIMITED[version] if memory is None else str(int(memory * MIB))
    if version == 2:
        files = {
            "": {
                "cpu.max": f"{quota} {PERIOD}\n",
                "memory.max": f"{allowed}\n",
                "memory.current": f"{used * MIB}\n",
                "memory.stat": f"anon 1\ninactive_file {inactive * MIB}\n",
            }
        }
    else:
        files = {
            "cpu,cpuacct": {"cpu.cfs_quota_us": f"{quota}\n", "cpu.cfs_period_us": f"{PERIOD}\n"},
            "memory": {
                "memory.limit_in_bytes": f"{allowed}\n",
                "memory.usage_in_bytes": f"{used * MIB}\n",
                "memory.stat": f"cache 1\ntotal_inactive_file {inactive * MIB}\n",
            },
        }
    for controller, contents in files.items():
        folder = root / place.lstrip("/") / controller / path.strip("/")
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in contents.items():
            (folder / name).write_text(text)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("groups", "own", "cpus", "mib"),
    [
        ({"/": (None, None), "/a": (16, 4096, 1000, 200)}, "/a", 16, 3296),
        ({"/": (None, None), "/a": (2, 2048), "/a/b": (8, 512, 100, 0)}, "/a/b", 2, 412),
        ({"/": (None, None), "/a": (8, 1024, 1000, 0), "/a/b": (3, 4096)}, "/a/b", 3, 24),
        ({"/": (None, None), "/a": (None, None), "/a/b": (None, None)}, "/a/b", MANY, 102400),
        ({"/": (4, 300)}, "/", 4, 300),
        ({"/": (None, None), "/a": (0.5, 10, 50, 0)}, "/a", 1, 0),
        ({"/": (None, None), "/a": (2.9, 10)}, "/a", 2, 10),
        ({"/": (None, None), "/a": (100, 200_000)}, "/a", MANY, 102400),
        ({"/": (None, None), "/other": (1, 1), "/a": (5, 50)}, "/a", 5, 50),
    ],
)
def test_the_smallest_limit_of_a_group_and_of_those_above_it_counts(tmp_path, version, groups, own, cpus, mib):
    root = tree(tmp_path, version, groups, own=own)
    assert (allotted_cpus(root), available_memory(root)) == (cpus, mib * MIB)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("own", "mounted"),
    [
        ("/docker/x", "/docker/x"),
        ("/docker/x/y", "/docker/x"),
        ("/../..", "/"),
        ("/", "/../.."),
        ("/lost/group", "/docker/x"),
    ],
)
def test_a_container_sees_its_own_part_of_the_hierarchy(tmp_path, version, own, mounted):
    """The group's path is that of the host; the mount begins at the container, or the path lies outside of it."""
    root = tree(tmp_path, version, {"/": (3, 70), "/y": (8, 90)}, own=own, mounted=mounted, place="/a place/cgroup")
    assert (allotted_cpus(root), available_memory(root)) == (3, 70 * MIB)


def test_in_a_mixture_of_versions_each_controller_is_looked_for_where_it_is(tmp_path):
    root = tree(tmp_path, 1, {"/": (None, None), "/job": (6, 800)}, own="/job")
    write_group(root, 2, "/sys/fs/cgroup/unified", "/unified", 4, 900)
    assert (allotted_cpus(root), available_memory(root)) == (4, 800 * MIB)


@pytest.mark.parametrize("damage", ["", "max", "a b", "0 0", "-1", "1 2 3", "\x00"])
def test_what_cannot_be_read_limits_nothing(tmp_path, damage):
    root = tree(tmp_path, 2, {"/": (None, None), "/a": (2, 100)}, own="/a")
    (root / "sys/fs/cgroup/a/cpu.max").write_text(damage)
    (root / "sys/fs/cgroup/a/memory.current").unlink()
    assert (allotted_cpus(root), available_memory(root)) == (MANY, 102400 * MIB)
    (root / "proc/self/mountinfo").write_text("nonsense\n1 2 3\n")
    assert allotted_cpus(root) == MANY and allotted_cpus(tmp_path / "no such place") == MANY


QUOTAS = st.lists(st.one_of(st.none(), st.floats(0.1, 200)), min_size=1, max_size=4)


@given(quotas=QUOTAS, pinned=st.integers(1, 128), version=st.sampled_from([1, 2]))
def test_generated_nests_by_a_second_way_of_computing(tmp_path_factory, quotas, pinned, version):
    paths = ["/" + "/".join("abc"[:depth]) for depth in range(len(quotas))]
    groups = {path: (quota, None) for path, quota in zip(paths, quotas, strict=True)}
    root = tree(tmp_path_factory.mktemp("tree"), version, groups, own=paths[-1])
    smallest = min([pinned, *(int(quota * PERIOD) // PERIOD for quota in quotas if quota is not None)])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "sched_getaffinity", lambda _: set(range(pinned)), raising=False)
        assert allotted_cpus(root) == max(1, smallest)


def test_a_machine_without_affinity_has_its_cpus(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 12)
    assert allotted_cpus(tmp_path) == 12
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert allotted_cpus(tmp_path) == 1


@pytest.mark.skipif(not shutil.which("taskset"), reason="needs taskset")
def test_a_process_that_is_pinned_to_one_cpu_asks_for_one():
    """Also the Ray that a run starts: its settings are looked at in place of starting it."""
    code = (
        "from smoothsweep.core.allotted import allotted_cpus, available_memory\n"
        "from smoothsweep.orchestrator.cluster import connection, local_ray\n"
        "from smoothsweep.orchestrator.commands.audit.forecast import wall_seconds\n"
        "from smoothsweep.orchestrator.commands.health.doctor import _cores\n"
        "local_ray.start = lambda **settings: print(settings['num_cpus'])\n"
        "connection.ray.cluster_resources = dict\n"
        "facts = connection.connect(None, None)\n"
        "import torch; torch.cuda.is_available = lambda: False\n"
        "print(allotted_cpus(), facts.cpus, facts.node_cpus, facts.trial_slots, wall_seconds(3.0), _cores().text[:5])\n"
        "assert available_memory() > 0\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    done = subprocess.run(
        ["taskset", "-c", "0", sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
        timeout=300,
    )
    assert done.stdout.split() == ["1", "1", "1", "1", "2", "3.0", "1", "CPU"]


def test_this_machine_s_own_groups_are_found():
    """Where there is a memory group at all, the file that the kernel names is among those that are read."""
    if not os.path.exists("/proc/self/mountinfo") or not list(allotted._groups("memory", allotted.ROOT)):
        pytest.skip("no cgroups here")
    assert all(mount.is_dir() for mount, _ in allotted._groups("memory", allotted.ROOT))


@pytest.mark.parametrize(
    ("said", "cpus"), [("16", 16), ("200", MANY), ("0", 1), ("many", MANY), ("", MANY), ("-3", MANY)]
)
def test_slurm_gives_so_many_cpus_where_nothing_holds_the_job_to_them(tmp_path, monkeypatch, said, cpus):
    monkeypatch.setenv(allotted.SLURM_CPUS, said)
    assert allotted_cpus(tmp_path) == cpus


def test_the_least_of_what_slurm_and_a_cgroup_give_counts(tmp_path, monkeypatch):
    tree(tmp_path, 2, {"/job": (4, None, 0, 0)}, own="/job")
    monkeypatch.setenv(allotted.SLURM_CPUS, "16")
    assert allotted_cpus(tmp_path) == 4
    monkeypatch.setenv(allotted.SLURM_CPUS, "2")
    assert allotted_cpus(tmp_path) == 2
