"""The graph's network is computed a second way: by NumPy, layer by layer, while the graph is written."""

import numpy as np
import pytest
import torch

from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.random_face.rewriting import MAPPING_KINDS, SYNTHESIS_KINDS, rewritten
from smoothsweep.core.readers.openvino_graph import read_graph
from tests.tiny_openvino import tiny_mapping, tiny_synthesis
from tests.tiny_random_face import tiny_generator


@pytest.mark.parametrize("channels", [(8, 12, 8), (4, 8), (12, 8, 8, 4)])
def test_it_computes_what_the_graph_says(channels):
    network, z, w, image = tiny_generator(channels)
    assert network.config.channels == channels and network.resolution == image.shape[-1]
    np.testing.assert_allclose(network.map(torch.from_numpy(z))[:, 0], w, atol=1e-5)
    made = network.synthesize(torch.from_numpy(w)[:, None])
    np.testing.assert_allclose(made / np.abs(image).max(), image / np.abs(image).max(), atol=2e-6)


@pytest.mark.parametrize("constant", [0.2, 0.5**0.5], ids=["slope", "wavelet"])
def test_a_graph_with_other_constants_is_refused(constant):
    mapping, _, w = tiny_mapping()
    synthesis, _ = tiny_synthesis(w)
    constants = synthesis.constants.replace(np.float32(constant).tobytes(), np.float32(0.5).tobytes())
    assert constants != synthesis.constants
    with pytest.raises(InputError, match=r"^synthesis: layer "):
        rewritten(
            read_graph(mapping.xml(), mapping.constants, MAPPING_KINDS, "mapping"),
            read_graph(synthesis.xml(), constants, SYNTHESIS_KINDS, "synthesis"),
        )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'strides="2, 1"', b'strides="1, 1"'),
        (b'pads_begin="1, 1"', b'pads_begin="0, 0"'),
        (b'transpose_b="true"', b'transpose_b="false"'),
        (b'dilations="1, 1"', b'dilations="2, 2"'),
        (b'type="Multiply"', b'type="Add"'),
    ],
)
def test_a_graph_that_is_built_otherwise_is_refused(old, new):
    mapping, _, w = tiny_mapping()
    synthesis, _ = tiny_synthesis(w)
    changed = synthesis.xml().replace(old, new)
    assert changed != synthesis.xml()
    with pytest.raises(InputError, match=r"^synthesis: "):
        rewritten(
            read_graph(mapping.xml(), mapping.constants, MAPPING_KINDS, "mapping"),
            read_graph(changed, synthesis.constants, SYNTHESIS_KINDS, "synthesis"),
        )


def test_a_mapping_that_is_built_otherwise_is_refused():
    mapping, _, w = tiny_mapping()
    synthesis, _ = tiny_synthesis(w)
    changed = mapping.xml().replace(b'keep_dims="true"', b'keep_dims="false"')
    with pytest.raises(InputError, match=r"^mapping: layer .*keep_dims=true"):
        rewritten(
            read_graph(changed, mapping.constants, MAPPING_KINDS, "mapping"),
            read_graph(synthesis.xml(), synthesis.constants, SYNTHESIS_KINDS, "synthesis"),
        )
