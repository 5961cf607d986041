"""Stores: what is kept of the rows or documents, up to a budget, and digests of all of them.

The kept rows are what `refit` chooses by and fits weights to; digests refuse to forget rows that
were never learnt. Imports votes, memories and tokens; models and all above import it.
"""

from hammemo.stores.digest_store import Digests

__all__ = ["Digests"]
