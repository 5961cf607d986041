"""Segments of a table: rows that lie in the order of their keys, in files larger than memory."""
