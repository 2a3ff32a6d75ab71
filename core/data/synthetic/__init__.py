"""Procedural faces: nobody's face, labelled by identity, free of anyone's rights."""

from core.data.synthetic.faces import synthetic_faces
from core.data.synthetic.streams import Population
from core.data.synthetic.traits import TRAIT_NAMES, identity_traits

__all__ = ["TRAIT_NAMES", "Population", "identity_traits", "synthetic_faces"]
