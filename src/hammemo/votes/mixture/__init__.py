"""The mixture vote: a weighted sum of the label distributions of the rows that a query reads."""

from hammemo.votes.mixture.vote import Mixture

__all__ = ["Mixture"]
