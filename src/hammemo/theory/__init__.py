"""Theory: the paper's analysis as code, and what follows from it for the choice of a memory.

`decomposition` says where the error of a Gaussian memory comes from, `bounds` how large it can be, and `planning`
which memory to take for some data. Imports `models` and all below; `experiments` and the command line may import it.
Nothing that learns or answers needs it.
"""

from hammemo.theory.bounds import (
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
from hammemo.theory.decomposition import Decomposition, decompose
from hammemo.theory.planning.planner import plan
from hammemo.theory.planning.reports import Estimate, Option, Plan

__all__ = [
    "CONTEXT_CONSTANT",
    "DIMENSION_CONSTANT",
    "ContextBound",
    "Decomposition",
    "Estimate",
    "Option",
    "Plan",
    "Recovery",
    "coherence_dimension",
    "context_bound",
    "data_context_bound",
    "data_recovery",
    "decompose",
    "output_bound",
    "plan",
    "projection_dimension",
    "recovery",
    "required_dimension",
    "sharp_context_bound",
    "square_recovery",
]
