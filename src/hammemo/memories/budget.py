"""When it pays to compile: once plain answers have cost about as much.

How many queries come before the next edit is unknown. So they are answered the plain way until that has cost as much
as compiling would, and by a compiled form then: never more than twice the cost of the better way.
"""

from __future__ import annotations


class CompileBudget:
    """What plain answers may cost before a compiled form pays. The unit is up to the caller: cells, or entries.

    Two threads may overwrite each other's count: then a form is compiled a little later.

    Parameters
    ----------
    per_call, per_context : int
        What a call costs, and each of its contexts.

    Examples
    --------
    >>> from hammemo.memories.budget import CompileBudget
    >>> budget = CompileBudget(per_call=10, per_context=1)
    >>> budget.pays(5, 20), budget.spend(5), budget.pays(5, 20)
    (False, None, True)
    """

    def __init__(self, per_call: int, per_context: int) -> None:
        self._per_call = per_call
        self._per_context = per_context
        self.spent = 0

    def _cost(self, n_contexts: int) -> int:
        return self._per_call + n_contexts * self._per_context

    def pays(self, n_contexts: int, price: float) -> bool:
        """Return whether a form of this price pays by now, this many contexts counted."""
        return self.spent + self._cost(n_contexts) > price

    def spend(self, n_contexts: int, more: int = 0) -> None:
        """Note that this many contexts were answered the plain way, at `more` cost than usual."""
        self.spent += self._cost(n_contexts) + more
