"""Requests to a served model.

Operations, settings, limits, quotas, and the choices and weights of an edit.

Imports the library `hammemo` only; all other packages of the server may import it.
"""
