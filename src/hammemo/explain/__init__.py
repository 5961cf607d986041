"""Explanations of answers, as values, tables and figures, and figures of columns.

It imports features and tokens. Tasks make explanations; clients and servers show them.
"""
