"""Stores: what is kept of the rows or documents, up to a budget: what `refit` chooses by and fits weights to.

Imports votes, memories and tokens; models and all above import it.
"""
