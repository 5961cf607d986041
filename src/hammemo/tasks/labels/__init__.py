"""Labels: how a classifier chooses, counts, weighs and answers, with streams, declared labels and segments.

Imports edits and all below; estimators, files and engines import its modules.
"""
