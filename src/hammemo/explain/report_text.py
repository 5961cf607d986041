"""What the reports of both kinds of models share: sentences, and how a notebook shows them."""

from __future__ import annotations

from html import escape
from typing import Any, Final

STALE: Final = (
    "stale: rows were forgotten, and what was chosen and fitted may depend on them until refit"
)


class ReportText:
    """A report that prints as text; a notebook shows the same, escaped."""

    def _repr_html_(self) -> str:
        """Return the same for a notebook."""
        return f"<pre style='white-space: pre-wrap; max-width: 900px'>{escape(str(self))}</pre>"


class ShowsReport:
    """An estimator whose view in a notebook is that of scikit-learn and, once fitted, its report."""

    def report(self) -> Any:
        """Return a report of what was chosen."""
        raise NotImplementedError

    def _repr_html_inner(self) -> str:
        """Return scikit-learn's picture and, once fitted, what was chosen."""
        return str(super()._repr_html_inner()) + self._report_html()  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Return the same for notebooks that ask for all forms at once."""
        forms: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        return (
            {**forms, "text/html": forms["text/html"] + self._report_html()}
            if "text/html" in forms
            else forms
        )

    def _report_html(self) -> str:
        return str(self.report()._repr_html_()) if "_state" in vars(self) else ""


def count_things(number: int, what: str) -> str:
    """Return a number with what it counts, in the plural where it is not 1.

    Examples
    --------
    >>> from hammemo.explain.report_text import count_things
    >>> count_things(1, "row"), count_things(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{number:,} {what}{'s' if number != 1 else ''}"


def describe_kept(n_kept: int | None, *, keeps_all: bool, what: str = "rows") -> str:
    """Return what is said of rows or documents that a model keeps."""
    if n_kept is None:
        return "rows: none are kept, so refit() needs them: refit(rows=…)"
    share = "all" if keeps_all else "some"
    return f"{what}: {share} are kept in plain text ({n_kept:,} distinct ones), for refit(); keep=False keeps none"
