"""How an execution shares out the rows of an attack: by memory, by batch, and changing no number."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from smoothsweep.core.attacks.ppa.config import CandidateConfig, OptimiseConfig, PoolConfig, PPAConfig, SelectConfig
from smoothsweep.core.attacks.ppa.inversion import optimise, select
from smoothsweep.core.attacks.ppa.pool import preprocess_of
from smoothsweep.core.attacks.shared.execution import Execution, PreparedTarget
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.settings import StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import StyleGAN2

PRIOR = StyleGAN2(
    StyleGAN2Config(resolution=16, z_dim=8, w_dim=8, mapping_layers=1, channel_base=256, channel_max=16), seed=3
).double()
WEIGHTS = torch.randn(3, 12 * 12 * 3, 5, generator=torch.Generator().manual_seed(4), dtype=torch.float64)


def target(images):
    """A smooth classifier in double precision, so that only real differences show."""
    return torch.tanh(images.flatten(1) @ WEIGHTS[0] * 0.1) * 3


CONFIG = PPAConfig(
    pool=PoolConfig(size=20, crop=12, image_size=12),
    candidates=CandidateConfig(candidates=7),
    optimise=OptimiseConfig(steps=6, lr=0.05, batch_size=3),
    select=SelectConfig(selected=4, selection_repeats=4, selection_crop_scale=(0.6, 0.9)),
)
COMMON = {"seed": 5, "transform": preprocess_of(CONFIG.pool), "device": "cpu"}


@pytest.fixture(scope="module")
def w0():
    return torch.randn(7, 1, 8, generator=torch.Generator().manual_seed(0)).double()


def optimised(w0, protocol, execution=None, **more):
    given = {} if execution is None else {"execution": execution}
    return optimise(PRIOR, target, w0, 2, CONFIG.optimise, protocol=protocol, **COMMON, **given, **more)


@pytest.fixture(scope="module", params=["paper", "clean"])
def protocol(request):
    return request.param


def test_what_measures_the_batch_is_no_query():
    """Else the class that a worker begins with would have asked more than the same class elsewhere."""
    shown, tried = [7], []

    def answer(images):
        shown[0] += len(images)
        return images.flatten(1) * 2

    def probe(rows):
        tried.append(rows)
        network(torch.ones(rows, 1, 2, 2, requires_grad=True)).sum().backward()

    network = PreparedTarget(answer, shown=shown)
    Execution(ExecutionConfig(), "cpu").gradient_batch("trying", (network,), probe, most=9)
    assert len(tried) == 2 and shown == [7]
    network(torch.ones(3, 1, 2, 2))
    assert shown == [10]


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 6, 7, 50])
def test_how_many_rows_are_computed_at_once_changes_nothing(w0, protocol, rows):
    expected = optimised(w0, protocol)
    found = optimised(w0, protocol, ExecutionConfig(rows_per_batch=rows))
    for name, value in vars(expected).items():
        torch.testing.assert_close(getattr(found, name), value, atol=1e-8, rtol=1e-8, msg=name)
    first, second = (
        select(PRIOR, target, expected.w, 2, CONFIG.select, protocol=protocol, execution=e, **COMMON)
        for e in (ExecutionConfig(), ExecutionConfig(rows_per_batch=rows))
    )
    torch.testing.assert_close(first.all_scores, second.all_scores, atol=1e-6, rtol=0)
    assert torch.equal(first.order, second.order)


@pytest.mark.parametrize("limit", [1, 2, 4])
def test_running_out_of_memory_changes_nothing_and_is_remembered(w0, protocol, limit):
    sizes = []

    def hungry(images):
        sizes.append(len(images))
        if len(images) > limit:
            raise torch.OutOfMemoryError("device is full")
        return target(images)

    run = Execution(ExecutionConfig(rows_per_batch=7), "cpu")
    found = optimise(PRIOR, hungry, w0, 2, CONFIG.optimise, protocol=protocol, execution=run, **COMMON)
    torch.testing.assert_close(found.w, optimised(w0, protocol).w, atol=1e-8, rtol=0)
    assert max(sizes) > limit
    sizes.clear()
    optimise(PRIOR, hungry, w0, 2, CONFIG.optimise, protocol=protocol, execution=run, **COMMON)
    assert max(sizes) <= limit


def test_a_single_image_that_does_not_fit_is_an_input_error(w0):
    def never(images):
        raise torch.OutOfMemoryError("device is full")

    run = Execution(ExecutionConfig(rows_per_batch=4), "cpu")
    with pytest.raises(InputError, match="at least one image at a time"):
        optimise(PRIOR, never, w0, 2, CONFIG.optimise, protocol="paper", execution=run, **COMMON)


def test_a_batch_seen_by_a_discriminator_is_computed_as_a_whole(w0):
    sizes, config = [], dataclasses.replace(CONFIG.optimise, discriminator_weight=0.3)

    def compares(images):
        sizes.append(images.shape)
        return (images - images.mean(0)).square().flatten(1).mean(1, keepdim=True)

    for rows in (1, 50):
        optimise(
            PRIOR,
            target,
            w0,
            2,
            config,
            protocol="paper",
            discriminator=compares,
            execution=ExecutionConfig(rows_per_batch=rows),
            **COMMON,
        )
    assert {tuple(shape) for shape in sizes} == {(3, 3, 16, 16), (1, 3, 16, 16)}  # 7 = 3 + 3 + 1, whole images


def test_a_batch_that_does_not_fit_beside_a_discriminator_is_an_input_error(w0):
    def full(images):
        raise torch.OutOfMemoryError("device is full")

    config = dataclasses.replace(CONFIG.optimise, discriminator_weight=0.3)
    with pytest.raises(InputError, match=r"optimise\.batch_size: expected .* got 3"):
        optimise(PRIOR, target, w0, 2, config, protocol="paper", discriminator=full, **COMMON)


def test_an_option_without_effect_on_the_device_is_an_input_error(w0):
    with pytest.raises(InputError, match="cuda_graphs: expected a CUDA device"):
        optimised(w0, "paper", ExecutionConfig(cuda_graphs=True))
