"""`smoothsweep slurm`: what it writes, submits and refuses (tests/drills/test_slurm.py has a real Slurm); its nodes."""

import json
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.commands.batch import node
from smoothsweep.orchestrator.commands.batch.node import start_options
from smoothsweep.orchestrator.commands.batch.slurm import seconds_of_limit
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.load import load_sweep
from tests.cluster_files import OTHERWISE_ON_NODES, local_settings
from tests.made_stores import commit
from tests.tiny import write_tiny

FAKE = """#!/bin/bash
echo "$@" >> {notes}/calls
case "$1" in
  --test-only) cat >> {notes}/tested; [ -z "$REFUSES" ] || {{ echo "sbatch: error: $REFUSES" >&2; exit 1; }};;
  --parsable) echo "4711;cluster";;
esac
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a sweep, and a fake of sbatch on the path."""
    notes = tmp_path / "notes"
    notes.mkdir()
    tools = tmp_path / "tools"
    tools.mkdir()
    fake = tools / "sbatch"
    fake.write_text(FAKE.format(notes=notes))
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    write_tiny(tmp_path)
    return tmp_path


def asked(*more, time="2:00:00"):
    return main(["slurm", "tiny.yaml", "--time", time, *more])


def printed(capsys, *more, **options):
    """The script of a dry run, which has to be one that a shell can read."""
    assert asked("--dry-run", *more, **options) == 0, capsys.readouterr().err
    text = capsys.readouterr().out
    checked = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True)
    assert checked.returncode == 0, checked.stderr
    return text


def directives(text):
    return re.findall(r"^#SBATCH (.*)$", text, re.MULTILINE)


SITE = {
    "--nodes": "2",
    "--gpus-per-node": "4",
    "--cpus-per-node": "16",
    "--mem": "64G",
    "--partition": "gpu",
    "--account": "lab",
    "--qos": "high",
    "--grace": "600",
}


def test_a_dry_run_prints_a_script_with_every_option_and_writes_and_submits_nothing(here, capsys):
    before = sorted(here.rglob("*"))
    words = [word for pair in SITE.items() for word in pair]
    found = directives(printed(capsys, *words, "--sbatch=--constraint=a100", "--sbatch=--exclusive", time="2-00"))
    assert sorted(here.rglob("*")) == before
    typed = {f"{name}={value}" for name, value in SITE.items() if not name.startswith(("--cpus", "--grace"))}
    assert typed | {"--job-name=smoothsweep-tiny", "--cpus-per-task=16", "--time=2-00"} <= set(found)
    assert {"--constraint=a100", "--exclusive", "--signal=B:USR1@600", "--requeue", "--no-kill"} <= set(found)


@pytest.mark.parametrize(
    ("more", "cluster", "elastic"),
    [
        ([], False, False),
        (["--nodes", "3"], True, False),
        (["--array", "0-5%3", "--gpus-per-node", "4"], True, True),
    ],
)
def test_words_with_blanks_stay_one_word_and_only_a_cluster_has_a_ray(here, capsys, more, cluster, elastic):
    text = printed(
        capsys,
        *("--store", "my store", "--folder", "my jobs", "--set", "recipe.epochs=2", "--tracking-uri", "http://h:5000"),
        *("--setup", "module load cuda", "--setup", "source 'my env/bin/activate'"),
        *("--python", "apptainer exec --nv 'my image.sif' python"),
        *more,
    )
    text = text[: text.index("#!/bin/bash", 1)] if elastic else text
    assert ("srun" in text, "/head" in text, "RAY_AUTH_MODE=token" in text) == (cluster, elastic, cluster)
    assert ("export SMOOTHSWEEP_CLUSTER_GPUS=12 SMOOTHSWEEP_NODE_GPUS=4" in text) is elastic
    assert "\nmodule load cuda\nsource 'my env/bin/activate'\n" in text and sys.executable not in text
    shown = "; ".join(
        [
            *re.findall(r"^(?:python|store|folder)=.*$", text, re.MULTILINE),
            "printf '%s|' " + re.search(r"-m smoothsweep run (.*) --store", text)[1],
            'printf "%s|" "$store" "$folder" "${python[@]}"',
            "printf '%s|' " + re.search(r"^cd (.*)$", text, re.MULTILINE)[1],
        ]
    )
    environment = {"PATH": os.environ["PATH"], "SLURM_JOB_ID": "17"}
    found = subprocess.run(["bash", "-c", shown], env=environment, capture_output=True, text=True, check=True).stdout
    run = [str(here / "tiny.yaml"), "--set", "recipe.epochs=2", "--tracking-uri", "http://h:5000"]
    python = ["apptainer", "exec", "--nv", "my image.sif", "python"]
    assert found.split("|")[:-1] == [*run, f"{here}/my store", f"{here}/my jobs/job-17", *python, str(here)]


def test_a_job_is_tried_before_it_is_written_and_then_submitted(here, capsys):
    assert asked("--nodes", "2", "--folder", "runs/one") == 0
    script = here / "runs" / "one" / "job.sh"
    assert (here / "notes" / "calls").read_text().splitlines() == ["--test-only", f"--parsable {script}"]
    assert (here / "notes" / "tested").read_text() == script.read_text()
    assert script.parent.stat().st_mode & 0o777 == 0o700
    assert "submitted job 4711" in capsys.readouterr().out


def test_workers_that_come_and_go_are_an_array_of_their_own(here, capsys):
    assert asked("--array", "0-7%4", "--gpus-per-node", "2", "--cpus-per-node", "8") == 0
    folder = here / "slurm" / "tiny"
    head, workers = (folder / "job.sh").read_text(), (folder / "workers.sh").read_text()
    assert "--gpus-per-node=2" not in directives(head)
    assert {"--array=0-7%4", "--gpus-per-node=2", "--cpus-per-task=8"} <= set(directives(workers))
    assert "SMOOTHSWEEP_CLUSTER_GPUS=8 SMOOTHSWEEP_NODE_GPUS=2" in head
    calls = (here / "notes" / "calls").read_text().splitlines()
    assert calls[2:] == [
        f"--parsable {folder / 'job.sh'}",
        f"--parsable --dependency=after:4711 {folder / 'workers.sh'}",
    ]
    assert subprocess.run(["bash", "-n", str(folder / "workers.sh")]).returncode == 0


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--nodes", "0"], "--nodes: expected a whole number of at least 1"),
        (["--nodes", "two"], "--nodes: expected"),
        (["--gpus-per-node", "0"], "--gpus-per-node: expected"),
        (["--cpus-per-node", "-1"], "--cpus-per-node"),
        (["--grace", "10"], "--grace: expected a whole number of at least 120"),
        (["--array", "7-0"], "--array: expected a range"),
        (["--array", "0-3", "--nodes", "2"], "--nodes 1"),
        (["--partition", "a b"], "--partition: expected one word"),
        (["--sbatch", "--x\n#SBATCH --y"], "--sbatch: expected one word"),
        (["--mem", ""], "--mem: expected an amount of memory as in 64G"),
        (["--mem", "lots"], "--mem: expected an amount of memory as in 64G, got 'lots'"),
        (["--sbatch", "constraint=a100"], "--sbatch constraint=a100: expected an option of sbatch, as in --sbatch="),
        (["--sbatch=--nodes=9"], "--sbatch --nodes=9: expected --nodes instead, got --nodes"),
        (["--sbatch=-c=8"], "--sbatch -c=8: expected --cpus-per-node instead, got -c"),
        (["--sbatch=--no-requeue"], "--sbatch --no-requeue: expected nothing in its place: the script needs its own"),
        (["--python", "'open"], "--python"),
        (["--python", ""], "--python: expected words that start Python, got ''"),
        (
            ["--gpus-per-node", "2", "--set", "recipe.workers=8"],
            "workers: expected at most 2, the GPUs that the cluster has or can grow to, got 8 for the stage target; "
            "--nodes, --gpus-per-node and --array say how many",
        ),
        (
            ["--gpus-per-node", "2", "--nodes", "3", "--set", "resources.gpus_per_task=4"],
            "resources.gpus_per_task: expected at most 2, which the largest machine has, got 4; --nodes",
        ),
        (["--gpus-per-node", "1", "--array", "0-7%3", "--set", "recipe.workers=4"], "workers: expected at most 3"),
        (["--tracking-uri", "http://me:secret@host"], "--tracking-uri"),
        (["--set", "recipe.epoch=1"], "epoch"),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_is_written(here, capsys, more, words):
    before = sorted(here.rglob("*"))
    assert asked(*more) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1 and "secret" not in said
    assert sorted(here.rglob("*")) == before


@pytest.mark.parametrize("time", ["soon", "", "1:2:3:4", "0", "5", "-3"])
def test_a_time_limit_that_is_none_or_too_short_is_refused(here, capsys, time):
    assert main(["slurm", "tiny.yaml", f"--time={time}"]) == 2
    assert "--time" in capsys.readouterr().err


def test_without_slurm_nothing_is_submitted(here, capsys, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert asked() == 2
    assert "--dry-run" in capsys.readouterr().err and not (here / "slurm").exists()


def test_a_stage_without_checkpoints_must_fit_into_one_time_limit(here, capsys):
    """With the warning before the limit (300 s) and the start (60 s); a training of any length leaves checkpoints."""
    store, stages = Store(root=here / "store"), trials_of(load_sweep(here / "tiny.yaml"))[0].stages
    store.open_for_writing()
    for kind, seconds in (("data", 500.0), ("target", 9000.0)):
        known = next(stage for stage in stages if stage.name == kind)
        alike = Stage(name=kind, config={**known.config, "seed": 99}, inputs=known.inputs)
        commit(store, alike, seconds=seconds)
    assert asked("--dry-run", time="15") == 0
    capsys.readouterr()
    assert asked("--dry-run", time="14:19") == 2
    said = capsys.readouterr().err
    assert "expected at least 860 s, since stage private images takes about 500 s" in said and "got 859 s" in said


TIMES = {"90": 5400, "90:30": 5430, "2:00:00": 7200, "1-2": 93600, "1-2:03": 93780, "1-2:03:04": 93784}


@pytest.mark.parametrize("text", TIMES)
def test_time_limits_are_read_as_sbatch_reads_them(text):
    assert seconds_of_limit(text) == TIMES[text]


@pytest.fixture
def job(tmp_path, monkeypatch):
    """The job's folder, on a machine without Slurm's variables whose waits are over at once."""
    for name in [name for name in os.environ if name.startswith(("SLURM", "RAY_", "AUTOSCALER", "DASHBOARD"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(node.time, "sleep", lambda _: None)
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "token").write_text("the job's token\n")
    return folder


@pytest.mark.parametrize(
    ("rank", "more", "head"), [(None, [], True), ("0", [], True), ("1", [], False), ("0", ["--worker"], False)]
)
def test_the_first_node_is_the_head_and_all_have_the_jobs_token_and_what_the_user_has_set(job, rank, more, head):
    kept = {"RAY_DEDUP_LOGS": "0"} | ({} if rank is None else {"SLURM_PROCID": rank})
    started = []

    def start(folder, own, *, head):
        path = os.environ["RAY_AUTH_TOKEN_PATH"]
        started.append((folder, str(own), head, Path(path).read_text(), dict(os.environ)))
        assert str(own / "token") == path and os.stat(path).st_mode & 0o777 == 0o600
        return 7

    with patch.dict(os.environ, kept), patch.object(node, "_start", start), patch.object(node, "sweep_away"):
        assert node.main([str(job), *more]) == 7
    ((folder, own, was_head, token, environment),) = started
    assert (folder, was_head, token) == (job, head, "the job's token")
    assert environment["RAY_AUTH_MODE"] == "token" and environment[node.BASE_VARIABLE] == own
    assert {**node.OF_A_NODE, **kept}.items() <= environment.items()
    assert not os.path.exists(own), "nothing stays on the node"


def values(options):
    """Option -> its value, of those that have one."""
    return {one: two for one, two in pairwise(options) if one.startswith("--")}


def test_a_head_offers_places_for_the_trials_of_all_nodes_and_every_node_its_own_cpus(job, monkeypatch):
    monkeypatch.setattr(node, "allotted_cpus", lambda: 6)
    found = values(start_options(None))
    assert json.loads(found["--resources"]) == {"trial_slot": 2 * 8 * 1}
    monkeypatch.setenv("SLURM_CPUS_ON_NODE", "5")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "3")
    for address in (None, "h:1"):
        options = start_options(address)
        found = values(options)
        assert found["--num-cpus"] == "6" and found["--object-store-memory"] == str(150 * 2**20)
        assert {"--block", "--disable-usage-stats"} <= set(options)
        ports = {name: value for name, value in found.items() if name.endswith("port")}
        expected = {"--dashboard-agent-listen-port", *(() if address else ("--port", "--ray-client-server-port"))}
        assert set(ports) == expected and all(1024 <= int(port) < 65536 for port in ports.values())
        assert found.get("--address") == address and ("--head" in options) is (address is None)
        if address is None:
            assert json.loads(found["--resources"]) == {"trial_slot": 2 * 5 * 3}
            assert found["--include-dashboard"] == "false"


def test_a_worker_does_not_wait_for_a_head_that_has_ended(tmp_path):
    (tmp_path / "ended").touch()
    with pytest.raises(InputError, match="the head's address"):
        node._address_of_head(tmp_path)
    (tmp_path / "address").write_text("h:1\n")
    assert node._address_of_head(tmp_path) == "h:1"


def test_a_node_sets_what_the_nodes_of_other_clusters_set(monkeypatch):
    """As `cluster.yaml` and the manifest for Kubernetes; the token is the job's own."""
    expected = local_settings(monkeypatch) | OTHERWISE_ON_NODES
    expected.pop("RAY_AUTH_MODE")
    assert expected.items() <= node.OF_A_NODE.items()
