"""Every row of the table of priors: what it promises, whatever its kind."""

import dataclasses
import subprocess
import sys

import pytest
import torch
from pydantic import TypeAdapter, ValidationError

from smoothsweep.core.data.synthetic import synthetic_faces
from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.kinds import NETWORKS, PRIORS, make_settings, network_card
from smoothsweep.core.priors.registry import card_of, load_prior
from smoothsweep.sweeps.attacks import MODELS, Prior
from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.files import save_tensors
from smoothsweep.tasks.prior import fit_prior
from tests.core.priors.examples import example
from tests.nonsense import nonsense_for

EXAMPLES = {kind: example(kind).EXAMPLE for kind in PRIORS}
WRONG = [(kind, wrong) for kind in PRIORS for wrong in example(kind).WRONG]


@pytest.fixture(scope="module")
def faces():
    return synthetic_faces(population="public", identities=24, per_identity=1, size=16, seed=0).images


def settings_of(kind, folder, faces):
    values, write = {**EXAMPLES[kind]}, getattr(example(kind), "files", None)
    if write is not None:
        values["path"] = str(write(folder, faces))
    return make_settings(kind, **values)


def made(kind, folder, faces):
    """As its stage makes it, into a folder that says so."""
    public, out, work = (folder / name for name in ("public", "out", "work"))
    for place in (public, out, work):
        place.mkdir(parents=True)
    save_tensors(public / "images.safetensors", {"images": faces})
    inputs = {"public": public} if PRIORS[kind].needs_public else {}
    config = {"kind": kind, **dataclasses.asdict(settings_of(kind, folder, faces))}
    metrics = fit_prior(config, inputs, out, TaskContext(work=work))
    return load_prior(out), metrics


def test_every_kind_has_a_model_in_sweep_files_and_mistakes():
    assert {kind for kind, _ in WRONG} == set(PRIORS) == set(MODELS)


@pytest.mark.parametrize("kind", PRIORS)
def test_a_prior_draws_finite_images_and_the_same_ones_again(kind, tmp_path, faces):
    (first, metrics), (again, _) = (made(kind, tmp_path / name, faces) for name in "ab")
    assert metrics == {"resolution": first.resolution, "z_dim": first.z_dim}
    z = torch.from_numpy(first.sample_z(3, 1)).float()
    w = first.map(z)
    assert w.shape == (3, first.num_ws, first.w_dim)
    images = first.synthesize(w)
    assert images.shape == (3, 3, first.resolution, first.resolution) and images.isfinite().all()
    assert images.std(dim=0).max() > 0  # they differ
    assert torch.equal(images, again.synthesize(again.map(z)))
    assert not any(value.requires_grad for value in first.parameters())


@pytest.mark.parametrize("kind", PRIORS)
def test_planning_knows_the_network_before_it_is_made(kind, tmp_path, faces):
    """Its sizes decide what is refused, and its name is one that the kind, or a kind that writes folders, brings."""
    settings = settings_of(kind, tmp_path, faces)
    planned = network_card(settings, faces.shape[-1])
    assert planned.kind in NETWORKS and isinstance(planned.config, NETWORKS[planned.kind].config)
    if settings.files is None:
        prior, _ = made(kind, tmp_path, faces)
        assert planned.plain == card_of(prior).plain


@pytest.mark.parametrize("kind", PRIORS)
def test_only_a_prior_that_is_there_already_names_its_files(kind, tmp_path, faces):
    files = settings_of(kind, tmp_path, faces).files
    assert (files is None) == PRIORS[kind].needs_public
    assert files is None or (files.weights.is_file() and files.description.is_file())


@pytest.mark.parametrize(("kind", "wrong"), WRONG)
def test_a_sweep_file_with_a_wrong_value_is_refused(kind, wrong):
    given = {"kind": kind, **(EXAMPLES[kind] if wrong else {}), **wrong}
    with pytest.raises(ValidationError):
        TypeAdapter(Prior).validate_python(given)
    with pytest.raises(InputError, match=rf"^prior( {kind}: |\.{next(iter(wrong), '')}: expected )"):
        make_settings(kind, **({**EXAMPLES[kind], **wrong} if wrong else {}))


@pytest.mark.parametrize("kind", PRIORS)
def test_every_field_refuses_a_value_of_another_type_under_its_own_name(kind):
    for field, value in nonsense_for(PRIORS[kind].settings):
        with pytest.raises(InputError) as refusal:
            make_settings(kind, **{**EXAMPLES[kind], field: value})
        assert str(refusal.value).startswith(f"prior.{field}: expected "), (value, str(refusal.value))


def test_an_unknown_kind_or_parameter_is_refused_in_core_too():
    with pytest.raises(InputError, match=r"prior.kind: expected one of eigenfaces, .* got 'gan'"):
        make_settings("gan")
    with pytest.raises(InputError, match="prior shipped: does not read 'seed'; it reads name"):
        make_settings("shipped", seed=1)


@pytest.mark.parametrize("kind", PRIORS)
def test_the_schema_has_the_fields_and_defaults_of_the_settings(kind):
    settings = PRIORS[kind].settings
    said = [field for field in dataclasses.fields(settings) if field.name not in settings.unsaid]
    declared = {field.name: field.default for field in said}
    model = MODELS[kind].model_fields
    assert set(model) == {"kind", *declared}
    for name, default in declared.items():
        assert model[name].is_required() if default is dataclasses.MISSING else model[name].default == default


def test_reading_the_table_loads_no_torch():
    code = "import sys, core.priors.kinds; print(*({'torch', 'pydantic', 'ray'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
