"""Explanations of answers, as values, tables and figures, and figures of columns.

Imports kernels and tokens; models make explanations, clients and servers show them.
"""
