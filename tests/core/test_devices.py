"""What a process may use; rows that fit a device."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import namedtuple
from itertools import chain

import psutil
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core import allotted
from smoothsweep.core.allotted import allotted_cpus, available_memory
from smoothsweep.core.devices import (
    CPU_TENSOR_BYTES,
    DeviceBatch,
    ExecutionConfig,
    arithmetic,
    repeatable_kernels,
    suitable_rows,
)
from smoothsweep.core.errors import InputError

CPU = torch.device("cpu")


@given(total=st.integers(0, 60), first=st.integers(1, 80), limit=st.integers(1, 80))
def test_every_row_is_computed_once_and_in_order_whatever_fits(total, first, limit):
    batch, tried = DeviceBatch(first), []

    def work(rows):
        tried.append(rows.stop - rows.start)
        if tried[-1] > limit:
            raise torch.OutOfMemoryError("too many")
        return list(range(rows.start, rows.stop))

    found = batch.run(work, total)
    assert list(chain.from_iterable(found)) == list(range(total))
    assert max(map(len, found), default=0) <= min(first, limit)
    tried.clear()
    batch.run(work, total)
    assert all(size <= limit for size in tried)  # what did not fit is not tried again


def test_memory_is_given_back_before_the_next_try():
    alive = []

    class Tensor:
        def __init__(self):
            alive.append(self)

        def __del__(self):
            freed.append(1)

    freed, seen = [], []

    def work(rows):
        held = Tensor()
        alive.clear()
        seen.append(len(freed))
        if rows.stop - rows.start > 1:
            raise torch.OutOfMemoryError(f"{held}")

    DeviceBatch(2).run(work, 2)
    assert seen == [0, 1, 2]  # at each try all that came before is gone


def test_a_row_that_does_not_fit_is_an_input_error():
    def never(rows):
        raise torch.OutOfMemoryError("no")

    with pytest.raises(InputError, match=r"optimisation: expected device memory for at least one image"):
        DeviceBatch(8, what="optimisation").run(never, 3)


def test_rows_on_a_cpu_follow_from_the_largest_tensor():
    def probe(rows):
        x = torch.zeros(rows, CPU_TENSOR_BYTES // 4 // 5, requires_grad=True)
        torch.autograd.grad(x.exp().sum(), x)

    assert suitable_rows(probe, CPU, most=100) == 5
    assert suitable_rows(probe, CPU, most=3) == 3


def test_weights_do_not_count():
    weights = torch.zeros(CPU_TENSOR_BYTES // 4 // 10, 2)

    def probe(rows):
        x = torch.zeros(rows, 10, requires_grad=True)
        torch.autograd.grad((x[:, :2] @ weights.T).sum() + x.exp().sum(), x)

    assert suitable_rows(probe, CPU, most=100) == 100


def test_a_row_larger_than_the_limit_goes_alone():
    def probe(rows):
        x = torch.zeros(rows, CPU_TENSOR_BYTES // 4 + 1, requires_grad=True)
        torch.autograd.grad(x.exp().sum(), x)

    assert suitable_rows(probe, CPU, most=100) == 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"precision": "fp16"}, "expected one of fp32, tf32, bf16, got 'fp16'"),
        ({"rows_per_batch": 0}, "expected None or a number >= 1, got 0"),
        ({"compile": True, "cuda_graphs": True}, "at most one"),
    ],
)
def test_wrong_settings_are_input_errors(wrong, message):
    with pytest.raises(InputError, match=message):
        ExecutionConfig(**wrong)


@pytest.mark.parametrize("config", [{"cuda_graphs": True}, {"precision": "tf32"}])
def test_what_a_cpu_cannot_do_is_an_input_error(config):
    with pytest.raises(InputError, match="CUDA device, got cpu"):
        ExecutionConfig(**config).check_device(CPU)
    ExecutionConfig(**config).check_device(torch.device("cuda"))


@pytest.mark.parametrize(("precision", "wanted"), [("fp32", False), ("bf16", False), ("tf32", True)])
def test_tf32_is_on_only_when_asked_for(precision, wanted):
    def now():
        return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32

    before = now()
    with arithmetic(precision):
        assert now() == (wanted, wanted)
    assert now() == before


@pytest.mark.parametrize("precision", ["fp32", "tf32"])
def test_repeatable_kernels_keep_the_arithmetic_that_is_in_force(precision):
    with arithmetic(precision), repeatable_kernels():
        flags = torch.backends.cudnn
        assert (flags.allow_tf32, flags.deterministic, flags.benchmark) == (precision == "tf32", True, False)
    assert not torch.backends.cudnn.deterministic


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


@pytest.mark.skipif(not shutil.which("taskset"), reason="needs taskset")
def test_a_process_that_is_pinned_to_one_cpu_asks_for_one():
    """Also the Ray that a run starts: its settings are looked at in place of starting it."""
    code = (
        "from smoothsweep.core.allotted import allotted_cpus, available_memory\n"
        "from smoothsweep.orchestrator.cluster import connection\n"
        "from smoothsweep.orchestrator.commands.audit.auditing import wall_seconds\n"
        "from smoothsweep.orchestrator.commands.doctor import examine\n"
        "connection.start_ray = lambda **settings: print(settings['num_cpus'])\n"
        "connection.ray.cluster_resources = dict\n"
        "facts = connection.connect(None, None)\n"
        "import torch; torch.cuda.is_available = lambda: False\n"
        "cores = next(found.text[:5] for found in examine('x') if 'CPU cores' in found.text)\n"
        "print(allotted_cpus(), facts.cpus, facts.node_cpus, facts.trial_slots, wall_seconds(3.0), cores)\n"
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
