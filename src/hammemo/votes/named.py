"""Votes by name."""

from __future__ import annotations

from hammemo.votes.base import Vote
from hammemo.votes.log_linear import LogLinear
from hammemo.votes.mixture import Mixture
from hammemo.votes.sums import Mean, Sum


def resolve_vote(vote: str | Vote) -> Vote:
    """Return the vote of a name, or the vote itself."""
    if isinstance(vote, Vote):
        return vote
    named: dict[str, type[Vote]] = {"sum": Sum, "mean": Mean, "log-linear": LogLinear, "mixture": Mixture}
    if not isinstance(vote, str) or vote not in named:
        raise ValueError(
            f"vote={vote!r} is not known: use 'sum', 'mean', 'log-linear', 'mixture' or an instance of a Vote."
        )
    return named[vote]()
