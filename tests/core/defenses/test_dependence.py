import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.defenses.information import (
    KERNELS,
    coco,
    coco_operator,
    gaussian_kernel,
    hsic,
    hsic_operator,
    imq_kernel,
    linear_kernel,
    squared_distances,
)

# Computed once with the official functions (float64); 4 samples, labels 0, 0, 1, 2.
Z = torch.tensor([[1, 0], [0, 1], [2, 2], [-1, 1]], dtype=torch.float64)
X = (torch.arange(12, dtype=torch.float64) / 10).view(4, 3)
Y = F.one_hot(torch.tensor([0, 0, 1, 2]), 3).double()
seeds = st.integers(0, 10_000)


def measure(kind, a, b, **options):
    operator, value = (hsic_operator, hsic) if kind == "hsic" else (coco_operator, coco)
    return value(operator(a), operator(b), **options).item()


@pytest.mark.parametrize(
    ("kind", "other", "options", "expected"),
    [
        ("hsic", gaussian_kernel(X), {}, 1.463254),
        ("hsic", linear_kernel(Y), {}, 1.969786),
        ("hsic", gaussian_kernel(Y), {}, 1.964896),
        ("coco", gaussian_kernel(X), {}, 0.006597),
        ("coco", gaussian_kernel(X), {"norm": "spectral"}, 0.006597),
        ("coco", linear_kernel(Y), {}, 0.081740),
        ("coco", linear_kernel(Y), {"norm": "spectral"}, 0.079246),
    ],
)
def test_values_of_the_official_functions(kind, other, options, expected):
    assert measure(kind, gaussian_kernel(Z), other, **options) == pytest.approx(expected, abs=6e-7)


def by_the_book(k, other):
    """Normalised HSIC with inverses, in numpy."""
    m = len(k)
    center = np.eye(m) - 1 / m
    parts = []
    for kernel in (k.numpy(), other.numpy()):
        a = kernel @ center
        parts.append(a @ np.linalg.inv(a + 1e-5 * m * np.eye(m)))
    return np.trace(parts[0] @ parts[1])


@settings(deadline=None, max_examples=20)
@given(seed=seeds, m=st.integers(3, 24), d=st.integers(1, 40))
def test_solving_gives_what_inverting_gives(seed, m, d):
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(m, d, generator=generator, dtype=torch.float64)
    x = torch.randn(m, 7, generator=generator, dtype=torch.float64)
    k, other = gaussian_kernel(z), gaussian_kernel(x)
    assert measure("hsic", k, other) == pytest.approx(by_the_book(k, other), rel=1e-6)
    assert -1e-6 <= measure("hsic", k, other) <= m - 1 + 1e-6


@settings(deadline=None, max_examples=20)
@given(seed=seeds, m=st.integers(3, 16))
def test_measures_ignore_the_order_of_the_images_and_are_symmetric(seed, m):
    generator = torch.Generator().manual_seed(seed)
    z, x = (torch.randn(m, 5, generator=generator, dtype=torch.float64) for _ in range(2))
    order = torch.randperm(m, generator=generator)
    for kind in ("hsic", "coco"):
        value = measure(kind, gaussian_kernel(z), gaussian_kernel(x))
        assert measure(kind, gaussian_kernel(z[order]), gaussian_kernel(x[order])) == pytest.approx(value, rel=1e-5)
        assert measure(kind, gaussian_kernel(x), gaussian_kernel(z)) == pytest.approx(value, rel=1e-5)


def test_distances_survive_single_precision_and_a_large_common_part():
    """Features after a ReLU share a large mean; without centring its square would swallow their differences."""
    generator = torch.Generator().manual_seed(0)
    x = 30 + torch.randn(16, 5000, generator=generator)
    exact = torch.cdist(x.double(), x.double()).square()
    torch.testing.assert_close(squared_distances(x), exact, rtol=2e-6, atol=1e-3)
    assert squared_distances(x).diagonal().abs().max() == 0
    images = torch.randn(4, 3, 8, 8, generator=generator).contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(squared_distances(images), squared_distances(images.flatten(1)), rtol=1e-5, atol=1e-4)


def test_kernels_by_hand():
    assert gaussian_kernel(Z)[0, 1].item() == pytest.approx(np.exp(-2 / (50 * 2)))
    assert imq_kernel(Z)[0, 1].item() == pytest.approx(1 / np.sqrt(3))
    same_class = [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    assert linear_kernel(Y).tolist() == same_class
    assert all(kernel(Z).dtype == torch.float64 for kernel in KERNELS.values())


@pytest.mark.parametrize("kind", ["hsic", "coco"])
def test_gradients(kind):
    operator, value = (hsic_operator, hsic) if kind == "hsic" else (coco_operator, coco)
    fixed = operator(gaussian_kernel(X))
    z = Z.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda z: value(operator(gaussian_kernel(z)), fixed), (z,), atol=1e-5)


def test_coco_of_a_constant_layer_has_no_gradient_instead_of_nan():
    z = torch.zeros(4, 2, dtype=torch.float64, requires_grad=True)
    value = coco(coco_operator(gaussian_kernel(z)), coco_operator(gaussian_kernel(X)))
    value.backward()
    assert value.item() < 1e-6 and torch.equal(z.grad, torch.zeros(4, 2, dtype=torch.float64))
