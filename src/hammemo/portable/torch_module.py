"""A predictor as a torch module, for any device, ``torch.export`` and ``torch.compile``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from hammemo.portable.graph import Graph
from hammemo.tokens.questions import ReadsQuestions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo._arrays.types import Array, Ints
    from hammemo.portable.tree_graph import NumberGraph, TreeGraph
    from hammemo.tokens.questions import QuestionForm


class TorchPredictor(ReadsQuestions, nn.Module):
    """Scores of contexts as a torch module.

    `forward` takes a tensor of 64-bit integers of shape (m, h), of float64 for a table with
    numbers. It returns the scores in float64, (m, L): labels in the order of `classes`, the first
    of equals wins, as ``scores.argmax(1)`` has it; of a model of numbers, the prediction and the
    quantiles. `numbers` turns rows into what it takes, and reads them as the model does: names of
    columns are compared, and missing values are what they are for the model. The tables are
    buffers: ``half()`` changes scores.
    """

    def __init__(self, graph: Graph | TreeGraph | NumberGraph, form: QuestionForm) -> None:
        super().__init__()
        self._graph = graph
        self.form = form
        self.classes = graph.classes
        self.buffer_names = {name: name.replace(".", "_") for name in graph.constants}
        for name, array in graph.constants.items():
            self.register_buffer(self.buffer_names[name], torch.as_tensor(array))

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        """Return the scores of each context."""
        ops = _TorchOperations(self)
        graph = self._graph
        if isinstance(graph, Graph):
            return graph.scores(ops, numbers)
        columns = list(enumerate(graph.rows.kinds))
        values = [numbers[:, j] for j, kind in columns if kind.is_ordered]
        places = [numbers[:, j].long() for j, kind in columns if not kind.is_ordered]
        return graph.scores(ops, values, places)

    def numbers(self, X: Any) -> torch.Tensor:
        """Return contexts of tokens as the tensor that `forward` takes."""
        return torch.as_tensor(self._graph.numbers(self.read(X)))

    def predict(self, X: Any) -> Array:
        """Return the label of each context, or the number."""
        with torch.no_grad():
            scores = self(self.numbers(X).to(next(self.buffers()).device))
        if self.classes is None:
            return np.asarray(scores[:, 0].cpu().numpy())
        winners: Ints = scores.argmax(1).cpu().numpy()
        return self.classes[winners]


class _TorchOperations:
    """What :class:`hammemo.portable.graph.Operations` asks for."""

    equal = staticmethod(torch.eq)
    where: Any = staticmethod(torch.where)

    def __init__(self, module: TorchPredictor) -> None:
        self._module = module

    def constant(self, name: str) -> torch.Tensor:
        tensor: torch.Tensor = getattr(self._module, self._module.buffer_names[name])
        return tensor

    def shift(self, a: torch.Tensor, bits: int) -> torch.Tensor:
        return (a >> bits) & ((1 << (64 - bits)) - 1)

    def search(self, ascending: torch.Tensor, n: int, words: torch.Tensor) -> torch.Tensor:
        return torch.searchsorted(ascending, words.contiguous()).clamp(max=n - 1)

    def join(self, matrices: Sequence[torch.Tensor]) -> torch.Tensor:
        return torch.cat(list(matrices), dim=1)

    def stack(self, columns: Sequence[torch.Tensor]) -> torch.Tensor:
        return torch.stack(list(columns), dim=1)

    def pick(self, matrix: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        return torch.gather(matrix, 1, columns)
