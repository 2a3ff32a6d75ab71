import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from smoothsweep.core.data.celeba import STANDARD_5, align_crop, aligned_cut, crop_target, similarity
from smoothsweep.core.data.decoding import UnreadablePicture

TARGET = crop_target(STANDARD_5)
angles = st.floats(-np.pi, np.pi)
scales = st.floats(0.3, 3.0)
shifts = st.floats(-200, 200)


def turned(points, angle, scale, shift):
    c, s = scale * np.cos(angle), scale * np.sin(angle)
    return points @ np.array([[c, s], [-s, c]]) + shift


def cubic(distance):
    """Keys' kernel with a = -0.75, as OpenCV has it."""
    a, d = -0.75, abs(distance)
    if d < 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def sampled(picture, x, y):
    """Bicubic value at one place, edge pixels repeated: sixteen terms, written out."""
    height, width = picture.shape[:2]
    left, top = int(np.floor(x)), int(np.floor(y))
    total = np.zeros(3)
    for j in range(top - 1, top + 3):
        for i in range(left - 1, left + 3):
            value = picture[min(max(j, 0), height - 1), min(max(i, 0), width - 1)]
            total += cubic(x - i) * cubic(y - j) * value
    return total


@settings(max_examples=60, deadline=None)
@given(angle=angles, scale=scales, x=shifts, y=shifts)
def test_a_similarity_is_recovered(angle, scale, x, y):
    matrix = similarity(TARGET, turned(TARGET, angle, scale, (x, y)))
    np.testing.assert_allclose(TARGET @ matrix[:, :2].T + matrix[:, 2], turned(TARGET, angle, scale, (x, y)), atol=1e-8)
    assert np.linalg.det(matrix[:, :2]) == pytest.approx(scale**2)


@settings(max_examples=15, deadline=None)
@given(angle=angles, scale=st.floats(0.05, 2.0), x=st.floats(-40, 60), y=st.floats(-40, 60), seed=st.integers(0, 99))
def test_pixels_are_opencvs_bicubic_with_edges_repeated(angle, scale, x, y, seed):
    """Also where the crop reaches far beyond the picture, or uses a small part of it."""
    rng = np.random.default_rng(seed)
    picture = rng.integers(0, 256, (37, 29, 3), dtype=np.uint8)
    target = crop_target(STANDARD_5, size=16)
    landmarks = turned(target, angle, scale, (x, y))
    crop = np.asarray(align_crop(Image.fromarray(picture), landmarks, target, size=16)).astype(int)
    matrix = similarity(target, landmarks)
    for u, v in rng.integers(0, 16, (12, 2)):
        place = matrix[:, :2] @ (u, v) + matrix[:, 2]
        expected = np.clip(sampled(picture.astype(float), *place), 0, 255)
        assert np.abs(crop[v, u] - expected).max() <= 0.51


def test_faces_without_a_size_or_landmarks_are_unreadable():
    image = Image.new("RGB", (50, 50))
    with pytest.raises(UnreadablePicture, match="no size of a face"):
        align_crop(image, np.full((5, 2), 7.0), TARGET)
    with pytest.raises(UnreadablePicture, match="1 x 50 pixels"):
        align_crop(Image.new("RGB", (1, 50)), TARGET, TARGET)
    with pytest.raises(UnreadablePicture, match="no landmarks"):
        aligned_cut([None], TARGET)(0, image)
