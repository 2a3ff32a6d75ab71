"""What the tests of the orchestrator share: made-up reports, an empty database, commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from smoothsweep.core.defenses.labels import recipe_words
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.result.data import (
    Axis,
    PaperReference,
    ReportData,
    StageLink,
)
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.tracking.server import connect
from smoothsweep.sweeps.paper_tables import Standing
from tests.commands import Commands, commands
from tests.made_stores import recorded
from tests.orchestrator.made_defenses import DEFENSES, as_text, defense_frames
from tests.orchestrator.made_reports import AXES, HOSTILE, make_frames, make_sheet, spoil


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An MLflow database with its tables and nothing in them, to be copied: making one costs seven seconds."""
    path = tmp_path_factory.mktemp("empty") / "mlflow.db"
    connect(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Trial], Store]:
    """The trials and the store of a sweep as a finished run leaves it, which tests copy before they change it."""
    return recorded(tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="session")
def make_data() -> Callable[..., ReportData]:
    """Builds a full report's data; keyword arguments replace fields."""

    def build(**changes: Any) -> ReportData:
        results, per_class = make_frames()
        epochs = np.arange(40)
        ramp = np.clip((epochs - 20) / 10, 0, 1)
        fields: dict[str, Any] = {
            "title": "Quickstart: does smoothing leak?",
            "results": spoil(results),
            "per_class": per_class,
            "axes": AXES,
            "intro": ("Twenty look-alike identities.", f"A comment with {HOSTILE} in it."),
            "facts": {"store": "store/", "device": "cpu, 2 cores", "wall time": "12 min"},
            "baseline": {"alpha": 0.0},
            "reasons": {"fid": "no FID judge at this scale", "xi_train": "the sweep does not ask for it"},
            "histories": {
                name: pd.DataFrame(
                    {
                        "epoch": epochs,
                        "alpha": alphas,
                        "loss": rest + np.exp(-epochs / 9),
                        "train_acc": 1 - 0.9 * np.exp(-epochs / 8),
                        "test_acc": np.where(epochs % 2, 0.87 - 0.8 * np.exp(-epochs / 7), np.nan),
                    }
                )
                for name, alphas, rest in (
                    ("alpha\u00a0\u22120.2", -0.2 * ramp, 0.1),
                    ("alpha\u00a00", 0.0, 0.2),
                    ("alpha\u00a00.1", 0.1, 0.5),
                )
            },
            "sheets": (make_sheet(),),
            "links": {
                trial: (
                    StageLink(stage="target", path="../store/target/ab12/manifest.json", seconds=62.4),
                    StageLink(stage="attack", path="javascript:alert(1)", seconds=3725.0),
                )
                for trial in results["trial"]
            },
            "paper": PaperReference(
                table="1",
                datasets=("facescrub",),
                standings={
                    row["trial"]: Standing(
                        axes={
                            "dataset": "facescrub",
                            "architecture": "resnet152",
                            "defense": "label_smoothing",
                            "alpha": row["alpha"],
                            "samples_per_class": None,
                            "attack": "ppa",
                        },
                        incomparable={"dist_eval": "features of another network"},
                    )
                    for row in results.to_dict("records")
                },
            ),
        }
        return ReportData(**(fields | changes))

    return build


@pytest.fixture(scope="session")
def defense_data() -> Callable[..., ReportData]:
    """Builds a sweep over defenses: 30 recipes; keyword arguments replace fields. failing: trials by their place in
    the results that failed; only: the kinds of defense to keep beside plain training."""

    def build(
        *,
        seeds: int = 3,
        classes: int = 12,
        losses: tuple[str, ...] = ("cross_entropy", "poincare"),
        failing: tuple[int, ...] = (),
        only: tuple[str, ...] | None = None,
        **changes: Any,
    ) -> ReportData:
        kept = {as_text(d): d for d, _ in DEFENSES if only is None or d["kind"] in only or d.get("alpha") == 0}
        results, per_class = defense_frames(seeds, classes, losses, kept)
        for place in failing:
            metrics = ["test_acc", "embedder_acc1", "attack_acc1", "seconds_target"]
            results.loc[place, ["status", "failure"]] = ["failed", "the loss is not finite"]
            results.loc[place, metrics] = np.nan
        axes = (
            Axis(key="defense", bare=True, defense=True, values={t: recipe_words(d).label for t, d in kept.items()}),
            Axis(key="attack_loss", role="attack", values={"poincare": "Poincaré", "cross_entropy": "cross entropy"}),
        )
        fields: dict[str, Any] = {
            "title": "Which defense?",
            "results": results,
            "per_class": per_class,
            "axes": axes,
            "baseline": {"defense": as_text(DEFENSES[0][0])},
            "defenses": {row["trial"]: kept[row["defense"]] for row in results.to_dict("records")},
        }
        return ReportData(**(fields | changes))

    return build


@pytest.fixture(scope="session")
def smoothsweep() -> Iterator[Commands]:
    """Runs a command as a user would, in a process that has its imports behind it; what it printed, and its code."""
    with commands() as run:
        yield run


@pytest.fixture(scope="session")
def owned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """An owner's people, other people, and a ResNet-18 with ImageNet's normalisation and alphabetical classes: the
    folder of all, and of both."""
    import torch

    from tests.foreign_classifier import PEOPLE, trained_resnet, write_people
    from tests.orchestrator.commands.owned_model import write_public

    root = tmp_path_factory.mktemp("owned")
    people, public = write_people(root / "people"), write_public(root / "public")
    torch.save(trained_resnet(people, sorted(PEOPLE)).state_dict(), root / "own.pth")
    return root, people, public


@pytest.fixture(scope="session")
def imported(owned: tuple[Path, Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the model."""
    from smoothsweep.orchestrator.cli import main
    from tests.foreign_classifier import PEOPLE, SIDE
    from tests.orchestrator.commands.owned_model import IMAGENET

    folder = tmp_path_factory.mktemp("imported") / "model"
    reading = ["--architecture", "resnet18", "--classes", str(len(PEOPLE)), "--image-size", str(SIDE), *IMAGENET]
    assert main(["import", "target", str(owned[0] / "own.pth"), *reading, "--out", str(folder)]) == 0
    return folder
