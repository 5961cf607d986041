"""Which memory fits a budget, and how well it will agree with the exact classifier.

A plan is made before anything is learned. `planner` searches among memories; `predictions` says of
each what it will take and do, from `growth` (what a sample says of more data), `trials` (hashed
memories tried on grown data) and `sizes` (bytes); `reports` is what comes out. Imports `estimators`
and all below; the command line may import it.
"""

from hammemo.planning.planner import plan
from hammemo.planning.reports import Estimate, Option, Plan

__all__ = ["Estimate", "Option", "Plan", "plan"]
