"""Labels: how a classifier chooses, counts, weighs and answers.

Streams, declared labels and segments belong to this task. It imports edits and all below;
estimators, files and engines import its modules.
"""
