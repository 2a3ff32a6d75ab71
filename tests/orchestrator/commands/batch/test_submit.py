"""What is asked of sbatch and what its answers become, the words of requests, and stages that no time limit fits."""

import subprocess
from types import SimpleNamespace
from unittest.mock import patch

import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.commands.batch import submit


def sbatch(answer, *given):
    """Ask with a stand-in for subprocess.run; what came back, and what the stand-in was given."""
    asked = []

    def run(command, **options):
        asked.append((command, options))
        if isinstance(answer, Exception):
            raise answer
        return answer

    with patch.object(submit.subprocess, "run", run):
        return submit._sbatch(*given), asked


def ended(code, out="", err=""):
    return SimpleNamespace(returncode=code, stdout=out, stderr=err)


@pytest.mark.parametrize(("out", "number"), [("4711\n", "4711"), ("4711;cluster\n", "4711"), ("", "")])
def test_a_script_is_given_on_the_input_and_the_number_comes_back(out, number):
    found, asked = sbatch(ended(0, out), ["--test-only", "x"], "a script")
    assert found == number
    ((command, options),) = asked
    assert command == ["sbatch", "--test-only", "x"] and options["input"] == "a script" and options["timeout"] == 60
    assert options["capture_output"] is True and options["text"] is True and not options.get("check")
    assert sbatch(ended(0), ["y"])[1][0][1]["input"] is None


def test_a_refusal_is_said_in_slurms_words_without_its_names_for_errors():
    said = "sbatch: error: Batch job submission failed:\n  allocation failure: Invalid \x1b[31mqos\n"
    with pytest.raises(InputError) as caught:
        sbatch(ended(1, "4711", said), [])
    words = str(caught.value)
    assert words.startswith(
        "sbatch: expected a job that this cluster accepts, got: Batch job submission failed: Invalid"
    )
    assert "error:" not in words and "allocation" not in words and "\n" not in words


@pytest.mark.parametrize("error", [OSError("not executable"), subprocess.TimeoutExpired(["sbatch"], 60)])
def test_a_slurm_that_does_not_answer_is_one_line(error):
    with pytest.raises(InputError, match=r"sbatch: expected an answer from Slurm, got: .*(not executable|60 seconds)"):
        sbatch(error, [])


STAGES = {  # name -> whether it trains, its shard, seconds expected
    "target": (True, None, 9000),
    "attack": (False, "a:shard", 9000),
    "short": (False, None, 500),
    "unknown": (False, None, None),
    "long": (False, None, 900.4),
}


@pytest.mark.parametrize(
    ("names", "limit", "words"),
    [
        (["target", "attack", "short", "unknown"], 900, None),
        (["target", "attack", "short", "unknown"], 860, None),
        (
            ["short"],
            859,
            "expected at least 860 s, since stage short takes about 500 s and keeps no checkpoint, got 859",
        ),
        (["target", "long", "short"], 1000, "expected at least 1260 s, since stage long takes about 900 s"),
        (["long"], 1261, None),
        ([], 361, None),
        ([], 360, r"expected more than the warning before the limit \(300 s\) and the start \(60 s\), got 360 s"),
    ],
)
def test_a_stage_without_checkpoints_must_fit_into_one_time_limit(names, limit, words):
    expected = {name: None if seconds is None else (seconds, 0) for name, (_, _, seconds) in STAGES.items()}
    kinds = {name: SimpleNamespace(trains=trains, shard=shard) for name, (trains, shard, _) in STAGES.items()}
    plan = SimpleNamespace(missing=[SimpleNamespace(name=name, task=kinds[name]) for name in names])
    history = SimpleNamespace(expected=lambda stage: expected[stage.name])
    with patch.object(submit, "history_of", lambda *_: history):
        if words is None:
            submit._refuse_short(plan, None, limit, 300)
            return
        with pytest.raises(InputError, match=f"--time: {words}"):
            submit._refuse_short(plan, None, limit, 300)


def test_a_name_of_a_sweep_becomes_one_word_of_a_folder_and_of_a_job(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, plain in (("my faces: 2", "my-faces-2"), ("\u00fc", "-"), ("a.b_c-d", "a.b_c-d"), ("", "sweep")):
        job = submit._job(request(), name)
        assert (job.job_name, job.folder, job.sweep_name) == (f"smoothsweep-{plain}", tmp_path / "slurm" / plain, name)
    assert job.store == str(tmp_path / "store") and job.working_folder == tmp_path and job.workers is None
    assert submit._job(request(store="s3://b/x", folder=tmp_path / "own"), "x").store == "s3://b/x"


def request(**changes):
    usual = dict.fromkeys(
        (
            "tracking_uri",
            "gpus_per_node",
            "cpus_per_node",
            "mem",
            "partition",
            "account",
            "qos",
            "array",
            "python",
            "folder",
        )
    )
    usual |= {"overrides": [], "store": "store", "nodes": "1", "time": "60", "sbatch": [], "setup": [], "grace": "300"}
    return submit.Request(**{**usual, "sweep": submit.Path("none.yaml"), "dry_run": False, **changes})


def test_a_workers_options_stand_in_the_order_of_the_request_and_its_machine_is_its_own():
    asked = {"partition": "p", "account": "a", "qos": "q", "sbatch": ["--x", "--y"], "cpus_per_node": "4", "mem": "8G"}
    common = ("--time=60", "--partition=p", "--account=a", "--qos=q", "--x", "--y")
    machine = ("--gpus-per-node=2", "--cpus-per-task=4", "--mem=8G")
    whole = submit._job(request(**asked, gpus_per_node="2"), "n")
    assert whole.directives == common + machine
    head = submit._job(request(**asked, gpus_per_node="2", array="1-4%3"), "n")
    assert head.directives == common and head.workers.directives == common + machine
    assert (head.workers.array, head.workers.count, head.workers.gpus_per_node) == ("1-4%3", 3, 2)
    assert submit._job(request(), "n").directives == ("--time=60",)
    for words in ("'open", " "):
        with pytest.raises(InputError, match="--python: expected words"):
            submit._job(request(python=words), "n")
