"""The data sets of a trial for MLflow: what the target learns, what the prior learns, what the attack reads."""

from __future__ import annotations

import json
from typing import Any

from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.stages.stage import Stage, with_ancestors
from smoothsweep.orchestrator.store.base import Store

DIGEST = 32  # hex digits of the stage's fingerprint; MLflow takes at most 36 characters


def dataset_inputs(trial: Trial, store: Store) -> list[Any]:
    """Data sets of the trial's finished stages, each in its context: training, public, attack.

    The digest is the stage's fingerprint, so equal digests are equal images; the source is where they lie.
    """
    stages = with_ancestors(trial.stages)
    private = [stage.inputs["data"] for stage in trial.stages if stage.name in ("target", "imported")]
    public = [stage for stage in stages if stage.name == "public"]
    pools = [stage for stage in stages if stage.name == "pool"]
    datasets = []
    for context, members in (("training", private), ("public", public), ("attack", pools)):
        datasets += [_input(stage, store, context) for stage in dict.fromkeys(members) if store.has(stage)]
    return datasets


def _input(stage: Stage, store: Store, context: str) -> Any:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    manifest = store.manifest(stage)
    facts = {key: int(value) if float(value).is_integer() else value for key, value in manifest["metrics"].items()}
    dataset = Dataset(
        name=_name(stage),
        digest=stage.fingerprint[:DIGEST],
        source_type="local",
        source=json.dumps({"uri": str(store.place(stage))}),
        schema=json.dumps(_schema(stage)),
        profile=json.dumps({**facts, "seconds": manifest["seconds"]}),
    )
    return DatasetInput(dataset, [InputTag("mlflow.data.context", context)])


def _name(stage: Stage) -> str:
    """`synthetic, private`, `synthetic, public`, `candidate pool of eigenfaces`."""
    if stage.name == "pool":
        return f"candidate pool of {stage.inputs['prior'].config['kind']}"
    return f"{stage.config.get('kind', stage.name)}, {'private' if stage.name == 'data' else 'public'}"


def _schema(stage: Stage) -> dict[str, Any]:
    """Images as MLflow describes tensors; labels where there are any."""
    side = stage.config.get("image_size" if stage.name == "pool" else "size", -1)
    images = {"type": "tensor", "tensor-spec": {"dtype": "uint8", "shape": [-1, 3, side, side]}}
    if stage.name != "data":
        return {"mlflow_tensorspec": {"features": json.dumps([images]), "targets": None}}
    labels = {"type": "tensor", "tensor-spec": {"dtype": "int64", "shape": [-1]}}
    return {"mlflow_tensorspec": {"features": json.dumps([images]), "targets": json.dumps([labels])}}
