"""The stages of shadow models: a recipe trained on seeded parts of all images, one set for all seeds of a sweep."""

from __future__ import annotations

from smoothsweep.core.judges.membership import Membership
from smoothsweep.orchestrator.stages.graph import target_config
from smoothsweep.orchestrator.stages.images import data_stage
from smoothsweep.orchestrator.stages.memo import remembered
from smoothsweep.orchestrator.stages.shared import Shared
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.schema import InversionSweep


@remembered(lambda settings: (settings.recipe, settings.data, settings.protocol, settings.judges))
def shadow_stages(settings: InversionSweep) -> dict[str, Stage | None]:
    """Name -> stage of each shadow model of the recipe; none where the sweep trains none.

    The parts of the images and the seeds of a model follow from its number and the judge's seed, so that recipes are
    compared on the same parts, and more models keep those that there are.
    """
    judge, recipe = settings.judges.built.get("membership"), settings.recipe
    if not isinstance(judge, Membership) or not judge.shadows or isinstance(recipe, ImportedClassifier):
        return {}
    config, hints, kin = target_config(recipe, settings.protocol)
    if recipe.stop_at_test_acc is not None:
        config = {**config, "stop_at_test_acc": recipe.stop_at_test_acc}
    data, found = data_stage(settings, recipe.image_size), dict[str, Stage | None]()
    for number in range(judge.shadows):
        part = {"model": number, "share": judge.share, "seed": judge.seed}
        own = Shared({**config, "seed": 1_000_000 + 1_000 * judge.seed + number, "part": part}, kin=kin)
        found[f"shadow_{number:04d}"] = Stage(name="shadow", config=own, hints=hints, inputs={"data": data})
    return found
