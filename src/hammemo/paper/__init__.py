"""The paper: its model by name, its theory, its baselines and its experiments.

- :mod:`hammemo.paper.memo`: `MeMoClassifier`, single-layer MeMo
- :mod:`hammemo.paper.theory`: the bounds of the paper, and where the error of a Gaussian memory
  comes from
- :mod:`hammemo.paper.baselines`: Hamming neighbours and suffix back-off, which the paper compares
  with
- :mod:`hammemo.paper.experiments`: the paper's tables and figures, for ``hammemo reproduce``

Imports `engines`, `estimators` and all below; the command line may import it. Nothing else that
learns or answers needs it.
"""
