"""The paper's analysis as code: where the error of a sketch comes from, and how large it can be."""

from hammemo.theory.bounds import (
    CONTEXT_CONSTANT,
    DIMENSION_CONSTANT,
    ContextBound,
    Recovery,
    context_bound,
    data_context_bound,
    data_recovery,
    output_bound,
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
    "context_bound",
    "data_context_bound",
    "data_recovery",
    "decompose",
    "output_bound",
    "plan",
    "recovery",
    "required_dimension",
    "sharp_context_bound",
    "square_recovery",
]
