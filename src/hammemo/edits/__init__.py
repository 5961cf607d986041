"""Edits: the state of a model, and each function from one state to the next, for any task.

`state` is what a model is, `task` is what an edit asks of labels or of numbers. Imports stores,
tokens and what is below; tasks and estimators import it. It never imports a task: so no edit can
depend on what the model predicts.
"""
