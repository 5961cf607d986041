"""Numbers: how a regressor chooses, counts, weighs and answers.

Imports edits and all below; estimators, files and engines import its modules.
"""
