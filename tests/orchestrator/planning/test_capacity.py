"""A cluster that can never do what the sweep asks for is told so before anything waits."""

import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.cluster.connection import ClusterFacts
from smoothsweep.orchestrator.planning.plan import refuse_unfit
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.sweeps.schema import Resources

TRAINING = Stage(name="target", config={"workers": 1})
ATTACK = Stage(name="attack", config={})


def group(workers: int) -> Stage:
    return Stage(name="target", config={"workers": workers})


def facts(**changes) -> ClusterFacts:
    return ClusterFacts(**{"cpus": 8, "gpus": 0.0, "trial_slots": 16, "is_local": False, **changes})


@pytest.mark.parametrize(
    ("cluster", "resources", "stages"),
    [
        (facts(), {}, [TRAINING, ATTACK]),  # the default wish for GPUs is no demand
        (facts(), {"gpus_per_training": 0}, [TRAINING]),
        (facts(is_local=True), {"gpus_per_training": 1}, [TRAINING]),
        (facts(gpus=8, node_gpus=4), {"gpus_per_training": 4}, [TRAINING]),
        (facts(gpus=8, node_gpus=4), {}, [group(8)]),
        (facts(), {}, [group(8)]),
        (facts(gpus=8), {"gpus_per_task": 0.25, "gpus_per_training": 8}, [ATTACK, TRAINING]),
        (facts(gpus=8, node_gpus=1), {"gpus_per_training": 8}, [ATTACK]),  # no training is left to do
        (facts(node_cpus=4), {"cpus_per_task": 5}, []),
        (facts(cpus=8, gpus=32), {"cpus_per_task": 12}, [ATTACK]),  # machines that are yet to come may have more
    ],
)
def test_what_can_be_done_passes(cluster, resources, stages):
    refuse_unfit(cluster, Resources(**resources), stages)


@pytest.mark.parametrize(
    ("cluster", "resources", "stages", "words"),
    [
        (facts(), {"gpus_per_training": 1}, [TRAINING], "gpus_per_training: expected a cluster with GPUs"),
        (facts(), {"gpus_per_task": 0.5}, [ATTACK], "gpus_per_task: expected a cluster with GPUs"),
        (
            facts(gpus=8, node_gpus=4),
            {"gpus_per_training": 8},
            [TRAINING],
            "expected at most 4, which the largest machine has, got 8",
        ),
        (facts(gpus=8), {"gpus_per_task": 16}, [ATTACK], "expected at most 8, which the cluster has, got 16"),
        (facts(gpus=8), {"gpus_per_task": 1.5}, [ATTACK], "expected at most 1 or a whole number, got 1.5"),
        (facts(gpus=4), {}, [TRAINING, group(5)], "workers: expected at most 4, the GPUs .* got 5 for the stage"),
        (facts(), {}, [group(9)], "workers: expected at most 8, the CPUs"),
        (facts(node_cpus=4), {"cpus_per_task": 5}, [ATTACK], "cpus_per_task: expected at most 4, .* got 5"),
    ],
)
def test_what_can_never_be_done_is_one_line(cluster, resources, stages, words):
    with pytest.raises(InputError, match=words) as caught:
        refuse_unfit(cluster, Resources(**resources), stages)
    assert "\n" not in str(caught.value)
