"""How documents are cut into windows, and other contexts are brought to the same shape.

A model of streams predicts a token from the h before it. The first tokens of a document have fewer
before them: they are left out ("drop"), or learned with the missing positions filled in front
("pad"). Questions have such beginnings, too, such as a visit of two clicks so far, and what is
forgotten must be cut as it was learned. So a model remembers its cutting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hammemo.tokens.contexts import (
    check_window,
    join_tokens,
    refuse_masked,
    token_array,
    window_filler,
)
from hammemo.tokens.vocabulary import NO_TOKEN, as_token


@dataclass(frozen=True)
class Cutting:
    """What is done with tokens that have fewer than h tokens before them.

    Parameters
    ----------
    short : {"drop", "pad"}
    pad : token, optional
        As in `windows`.

    Examples
    --------
    >>> from hammemo.tokens.cutting import Cutting
    >>> Cutting("pad", "(start)").contexts([["a"], ["a", "b", "c"]], h=2)
    [['(start)', 'a'], ['b', 'c']]
    """

    short: Literal["drop", "pad"] = "drop"
    pad: Any = None

    def __post_init__(self) -> None:
        check_window(1, self.short, self.pad)
        if self.pad is not None:
            pad = as_token(self.pad)
            # to pad with `NO_TOKEN` is to leave positions empty, as without a pad token
            object.__setattr__(self, "pad", None if pad == NO_TOKEN else pad)

    def contexts(self, X: Any, h: int) -> Any:
        """Return contexts of h tokens: the last h of longer ones, shorter ones filled in front.

        Contexts that have h tokens, and what is not contexts of tokens, are returned as they are:
        others check them.
        """
        if isinstance(X, np.ndarray) and X.ndim == 2:
            return X if X.shape[1] == h else self._cut_array(X, h)
        is_array = isinstance(X, np.ndarray) and X.ndim == 1
        has_rows = is_array or isinstance(X, (list, tuple)) or hasattr(X, "to_list")
        if hasattr(X, "columns") or not has_rows:
            return X
        refuse_masked(X, "X")  # a row that is cut, or filled up, would lose its mask
        rows = list(X)
        if not all(isinstance(row, (list, tuple, np.ndarray)) for row in rows):
            return X
        if all(len(row) == h for row in rows):
            return X if isinstance(X, (list, tuple)) else rows
        return [self.context(row, h) for row in rows]

    def context(self, tokens: Any, h: int) -> list[Any]:
        """Return one context of h tokens."""
        last = list(tokens[-h:])
        if len(last) == h:
            return last
        return [*self._make_filler(h - len(last), h).tolist(), *last]

    def _cut_array(self, X: np.ndarray[Any, Any], h: int) -> Any:
        if X.shape[1] > h:
            return X[:, -h:]
        filler = np.tile(self._make_filler(h - X.shape[1], h), (len(X), 1))
        return join_tokens([filler.T, token_array(X).T]).T

    def _make_filler(self, n: int, h: int) -> np.ndarray[Any, Any]:
        """Return what fills n missing positions, or refuse contexts that have too few tokens."""
        if self.short == "drop":
            raise ValueError(
                f"A context has {h - n} tokens, and the model reads {h}: it learnt no beginnings "
                f"of documents. Pass {h} tokens or more, or learn with short='pad'."
            )
        return window_filler(n, self.short, self.pad)
