"""A store with finished trials of the tiny sweep, whose judge accepted given fractions of each class."""

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.stages.stage import Stage, with_ancestors
from smoothsweep.orchestrator.store.base import Store

Rates = Callable[[Trial], Sequence[float]]
SECONDS = {"target": 10.0, "attack": 30.0}
"""What such stages took; every other stage took a second."""


def finish(store: Store, trials: Sequence[Trial], rates: Rates) -> None:
    """Commit every stage of the trials. rates: by trial, one fraction per class."""
    judged = ((stage, trial) for trial in trials for stage in trial.stages if stage.name.startswith("judge_"))
    of_judge = {stage.fingerprint: trial for stage, trial in judged}
    for stage in with_ancestors([stage for trial in trials for stage in trial.stages]):
        draft = store.draft(stage)
        if (trial := of_judge.get(stage.fingerprint)) is not None:
            found = [float(rate) for rate in rates(trial)]
            column = f"{stage.name.removeprefix('judge_')}_acc1"
            pq.write_table(pa.table({"class": list(range(len(found))), column: found}), draft / "per_class.parquet")
        store.commit(stage, draft, _manifest(stage))


def _manifest(stage: Stage) -> dict:
    inputs = {role: {"stage": one.name, "fingerprint": one.fingerprint} for role, one in stage.inputs.items()}
    seconds = SECONDS.get(stage.name, 1.0)
    return {**stage.identity(), "inputs": inputs, "metrics": {}, "seconds": seconds, "device": "cpu"}
