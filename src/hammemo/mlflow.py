"""Models in MLflow: log them, load them, serve them, without pickles.

What is logged is the model file that `hammemo.save` writes, and a few lines that name this module
as its loader. The file holds no code, and loading runs none but this library's. MLflow's own tools
then know the model as a function from tables to labels: ``mlflow.pyfunc.load_model``,
``mlflow models serve``, batch scoring.

.. code-block:: python

    import hammemo.mlflow

    with mlflow.start_run():
        # what it is made of, as parameters and metrics
        hammemo.mlflow.log_report(clf)
        logged = hammemo.mlflow.log_model(clf, name="model", input_example=X[:2])
    clf = hammemo.mlflow.load_model(logged.model_uri)     # the classifier, which goes on learning
    mlflow.pyfunc.load_model(logged.model_uri).predict(X)  # what a server answers

A tracker keeps what was logged: after `forget`, log the model again and delete the older versions
(``mlflow gc``).
"""

from __future__ import annotations

import importlib
import os
import tempfile
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo._lazy import explain_missing
from hammemo.files.models import load, save
from hammemo.tokens.contexts import token_array

with explain_missing("The tracker needs its package: pip install 'hammemo[mlflow]'"):
    import mlflow
    from mlflow.models import Model

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mlflow.models.model import ModelInfo

    from hammemo.estimators.classifiers import MemoryClassifier
    from hammemo.estimators.predictor import Predictor
    from hammemo.tasks.labels.report import Report

FLAVOR: Final = "hammemo"
_VERSION: Final = version("hammemo")
_FILE: Final = "model.safetensors"
_ANSWERING_METHODS: Final = ("predict", "predict_proba", "class_scores")
"""The methods of a model that a client of MLflow may call."""
_MAX_PARAMETER_CHARACTERS: Final = 500
"""A parameter's text is cut here: the least that a store of MLflow takes."""


def save_model(
    model: MemoryClassifier | Predictor,
    path: str | os.PathLike[str],
    mlflow_model: Model | None = None,
    **options: Any,
) -> None:
    """Write a model to a folder in MLflow's form.

    Parameters
    ----------
    model : MemoryClassifier or Predictor
    path : str or path
        The folder; it is created.
    mlflow_model : mlflow.models.Model, optional
        What MLflow hands over when it logs a model.
    **options
        Those of ``mlflow.pyfunc.save_model``, such as ``signature``, ``input_example`` and
        ``pip_requirements``. By default the signature is that of the example, if there is one, and
        the requirement is this version of hammemo.
    """
    if mlflow_model is None:
        mlflow_model = Model()
    mlflow_model.add_flavor(
        FLAVOR,
        hammemo_version=_VERSION,
        data=f"data/{_FILE}",
        kind=type(model).__name__,
    )
    if "conda_env" not in options:
        options.setdefault("pip_requirements", [f"hammemo=={_VERSION}"])
    example = options.get("input_example")
    if example is not None and "signature" not in options:
        answers = _Function(model).predict(example)
        parameters = {"method": "predict"}
        options["signature"] = mlflow.models.infer_signature(example, answers, params=parameters)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, _FILE)
        save(model, file)
        mlflow.pyfunc.save_model(
            path=os.fspath(path),
            loader_module=__name__,
            data_path=file,
            mlflow_model=mlflow_model,
            **options,
        )


def log_model(
    model: MemoryClassifier | Predictor,
    name: str = "model",
    **options: Any,
) -> ModelInfo:
    """Log a model to the active run, or to a new one; return MLflow's facts about it.

    Its `model_uri` is one of them.

    Parameters
    ----------
    model : MemoryClassifier or Predictor
    name : str
    **options
        Those of `save_model`, and of ``mlflow.models.Model.log``, such as
        ``registered_model_name``.
    """
    this_module = importlib.import_module(__name__)
    return Model.log(artifact_path=None, name=name, flavor=this_module, model=model, **options)


def load_model(model_uri: str, *, key: bytes | None = None, trust: Iterable[type] = ()) -> Any:
    """Return a model that was saved or logged, as it was: a classifier goes on learning.

    Parameters
    ----------
    model_uri : str
        Such as ``"models:/name/1"`` or ``"runs:/…/model"``, or the path of a folder.
    key, trust
        As in `hammemo.load`.
    """
    folder = mlflow.artifacts.download_artifacts(model_uri)
    flavors = Model.load(folder).flavors
    if FLAVOR not in flavors:
        names = ", ".join(sorted(flavors))
        problem = f"{model_uri} is not a model of hammemo; it has the flavors {names}."
        raise ValueError(f"{problem} Use mlflow.pyfunc.load_model.")
    return load(os.path.join(folder, flavors[FLAVOR]["data"]), key=key, trust=trust)


def log_report(model: MemoryClassifier) -> None:
    """Log the report of a model to the active run: parameters, metrics and a text.

    The parameters describe its kernel, memory and vote. The metrics are its sizes and, where sites
    were chosen, the log-loss on rows left out. The names of both begin with ``hammemo.``; the text
    is ``hammemo_report.txt``.
    """
    report = model.report()
    parameters = {
        f"hammemo.{name}": description[:_MAX_PARAMETER_CHARACTERS]
        for name, description in _describe_parts(report).items()
    }
    metrics = {f"hammemo.{name}": number for name, number in _list_metrics(report).items()}
    mlflow.log_params(parameters)
    mlflow.log_metrics(metrics)
    mlflow.log_text(f"{report}\n", "hammemo_report.txt")


def _describe_parts(report: Report) -> dict[str, str]:
    n_tuples = len(report.tuples)
    n_free = len(report.free)
    return {
        "kernel": f"{report.n_single} positions, {n_tuples} tuples, {n_free} free sites",
        "memory": report.memory,
        "vote": report.vote,
        "version": _VERSION,
    }


def _list_metrics(report: Report) -> dict[str, float]:
    metrics: dict[str, float] = {
        "examples": report.n_examples,
        "labels": report.n_labels,
        "bytes": report.nbytes,
        "tokens_per_context": report.n_positions,
        "sites": report.n_single + len(report.tuples) + len(report.free),
    }
    if report.choices.losses:
        metrics["log_loss_left_out"] = report.choices.losses[report.choices.taken]
    return metrics


class _Function:
    """A model as MLflow asks it: a table in, an array out."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """Return the labels of rows or, as the parameter ``method`` says, probabilities or scores.

        MLflow calls this with what a client sends. So only methods that answer may be named.
        """
        method = "predict"
        if params is not None:
            method = params.get("method", method)
        if method not in _ANSWERING_METHODS:
            way_out = "use 'predict', 'predict_proba' or 'class_scores'."
            raise ValueError(f"method={method!r} is not known: {way_out}")
        answer = getattr(self._model, method)
        return np.asarray(answer(self._table(model_input)))

    def _table(self, model_input: Any) -> Any:
        """Return a frame if the model was fitted to one, and otherwise an array."""
        if hasattr(self._model, "feature_names_in_"):
            return model_input
        return token_array(model_input)

    def get_raw_model(self) -> Any:
        """Return the model itself, as MLflow asks for it."""
        return self._model


def _load_pyfunc(data_path: str) -> _Function:
    """Return the model in a file as a function. MLflow calls this by its name."""
    return _Function(load(data_path))
