"""What the reports of both kinds of models share: sentences, and how a notebook shows them."""

from __future__ import annotations

from html import escape
from typing import Any, Final

STALE: Final = (
    "stale: rows were forgotten, and what was chosen and fitted may depend on them until refit"
)
"""What a report says of a model that was not fitted again since rows were forgotten."""


class ReportText:
    """A report that prints as text; a notebook shows the same, escaped."""

    def _repr_html_(self) -> str:
        """Return the same for a notebook."""
        return f"<pre style='white-space: pre-wrap; max-width: 900px'>{escape(str(self))}</pre>"


class ShowsReport:
    """An estimator that a notebook shows as scikit-learn does, and with its report once fitted."""

    def report(self) -> Any:
        """Return a report of what was chosen."""
        raise NotImplementedError

    def _repr_html_inner(self) -> str:
        """Return scikit-learn's picture and, once fitted, what was chosen."""
        return str(super()._repr_html_inner()) + self._report_html()  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Return the same for notebooks that ask for all forms at once."""
        forms: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in forms:
            forms["text/html"] += self._report_html()
        return forms

    def _report_html(self) -> str:
        if "_state" not in vars(self):  # not fitted
            return ""
        return str(self.report()._repr_html_())


def count_things(number: int, what: str) -> str:
    """Return a number with what it counts, in the plural where it is not 1.

    Examples
    --------
    >>> from hammemo.explain.report_text import count_things
    >>> count_things(1, "row"), count_things(2000, "row")
    ('1 row', '2,000 rows')
    """
    if number != 1:
        what += "s"
    return f"{number:,} {what}"


def describe_kept(n_kept: int | None, *, keeps_all: bool, what: str = "rows") -> str:
    """Return a sentence about the rows or documents that a model keeps."""
    if n_kept is None:
        return "rows: none are kept, so refit() needs them: refit(rows=…)"
    share = "all" if keeps_all else "some"
    return (
        f"{what}: {share} are kept in plain text ({n_kept:,} distinct ones), for refit(); "
        "keep=False keeps none"
    )
