"""The paper's analysis as code: where the error of a Gaussian memory comes from, and how large it can be.

Imports `models` and all below; the experiments and the command line may import it.
"""

from hammemo.paper.theory.bounds import (
    CONTEXT_CONSTANT,
    DIMENSION_CONSTANT,
    ContextBound,
    Recovery,
    coherence_dimension,
    context_bound,
    data_context_bound,
    data_recovery,
    output_bound,
    projection_dimension,
    recovery,
    required_dimension,
    sharp_context_bound,
    square_recovery,
)
from hammemo.paper.theory.decomposition import Decomposition, decompose

__all__ = [
    "CONTEXT_CONSTANT",
    "DIMENSION_CONSTANT",
    "ContextBound",
    "Decomposition",
    "Recovery",
    "coherence_dimension",
    "context_bound",
    "data_context_bound",
    "data_recovery",
    "decompose",
    "output_bound",
    "projection_dimension",
    "recovery",
    "required_dimension",
    "sharp_context_bound",
    "square_recovery",
]
