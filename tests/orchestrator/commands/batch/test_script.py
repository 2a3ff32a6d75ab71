"""The scripts of a job, from a job that is made by hand: every value where it belongs, and none where it does not."""

import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from smoothsweep.orchestrator.commands.batch.script import Job, Workers, job_script

JOB = Job(
    sweep_name="faces",
    run_arguments=("my sweep.yaml", "--set", "a=b c"),
    store="/data/my store",
    folder=Path("/home/me/slurm/my faces"),
    working_folder=Path("/home/me/work here"),
    nodes=1,
    directives=("--time=2-00", "--qos=high"),
    python=("apptainer", "exec", "my image.sif", "python"),
    grace_s=600,
    job_name="smoothsweep-faces",
    setup="module load cuda\nulimit -n 4096\n",
)
WORKERS = Workers(array="0-5%3", count=3, gpus_per_node=4, directives=("--gpus-per-node=4", "--mem=8G"))
ELASTIC = replace(JOB, workers=WORKERS)


def directives(text):
    return re.findall(r"^#SBATCH (.*)$", text, re.MULTILINE)


def checked(text):
    """A script that a shell can read, with a last line that ends."""
    assert subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True).stderr == ""
    assert text.startswith("#!/bin/bash\n") and text.endswith("\n") and "{{" not in text and "{%" not in text
    return text


@pytest.mark.parametrize(
    "job", [JOB, replace(JOB, nodes=3), ELASTIC, replace(JOB, store="s3://bucket/store", setup="")]
)
def test_the_job_says_what_it_was_given_and_words_with_blanks_stay_one_word(job):
    text = checked(job_script(job))
    assert directives(text)[:5] == [
        "--job-name=smoothsweep-faces",
        f"--nodes={job.nodes}",
        "--ntasks-per-node=1",
        "--time=2-00",
        "--qos=high",
    ]
    assert "--signal=B:USR1@600" in directives(text)
    cluster, elastic, folder = job.nodes > 1 or job.workers is not None, job.workers is not None, "://" not in job.store
    assert ("srun" in text, "/head" in text, "find" in text) == (cluster, elastic, folder)
    assert ("export SMOOTHSWEEP_CLUSTER_GPUS=12 SMOOTHSWEEP_NODE_GPUS=4" in text) is elastic
    assert ("module load cuda\nulimit -n 4096\n" in text) is bool(job.setup) is ("set-up lines" in text)
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
    place = f"{job.folder}/job-17"
    assert found.split("|")[:-1] == [*job.run_arguments, job.store, place, *job.python, "/home/me/work here"]
    assert "faces: one sweep as one Slurm job" in text and "sbatch '/home/me/slurm/my faces/job.sh'" in text


@pytest.mark.parametrize("left", [False, True])
def test_it_ends_earlier_where_all_work_has_left(tmp_path, left):
    waits = re.search(r"^wait_for_work\(\).*$", job_script(replace(JOB, grace_s=300)), re.MULTILINE)[0]
    if left:
        (tmp_path / "left").touch()
    counted = f"folder={tmp_path}; n=0; sleep() {{ n=$((n + $1)); }}\n{waits}\nwait_for_work; echo $n"
    assert int(subprocess.run(["bash", "-c", counted], capture_output=True, text=True).stdout) == (0 if left else 210)
