"""The paper's model by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, cast

from hammemo.estimators.classifiers import MemoryClassifier
from hammemo.memories import Gaussian, Memory
from hammemo.memories.gaussian import GivenRows
from hammemo.memories.gaussian.codes import GIVEN, site_keys
from hammemo.tasks.labels.settings import ModelSettings
from hammemo.tasks.labels.task import LABELS

if TYPE_CHECKING:
    from hammemo._arrays.types import Floats
    from hammemo.kernels import SiteKernel
    from hammemo.votes import Vote


class MeMoClassifier(MemoryClassifier):
    """The paper's single-layer MeMo: `MemoryClassifier` with a Gaussian memory.

    Parameters
    ----------
    d : int
        Dimension of token and label codes.
    d_h : int, optional
        Dimension of a projected token code; d / h by default, which makes the memory square.
    tied : bool
        Whether labels use their input codes as output codes.
    exact : bool
        Whether codes are rounded to whole steps, so that models learnt in any order, in shards or
        after forgetting are the same to the byte.
    kernel, vote, random_state, verbose
        As in `MemoryClassifier`.
    codes : array, mapping or None
        Your own token codes, in place of drawn ones: an array whose row i is the code of token i,
        or a mapping from tokens to rows. Rows have d numbers and norm 1. Labels have drawn codes,
        or with ``tied=True`` these.
    output_codes : array, mapping or None
        Your own label codes, in the same form.
    projection : array of shape (d_h, d) or None
        Your own projection W. On average it maps a code of norm 1 to a squared norm of 1/h.
    distribution : {"gaussian", "rademacher", "sparse"}
        What codes and projection are drawn from: normal numbers, ±1, or ±√3 with probability 1/3
        and otherwise 0, all scaled to the same variance.
    device : str or None
        A device of torch that learns and answers, such as ``"cuda"`` or ``"cpu"``; None uses NumPy.
        It is neither in files nor in digests.

    Examples
    --------
    >>> from hammemo import MeMoClassifier
    >>> X, y = [["a", "b"], ["a", "c"], ["d", "e"]], ["x", "x", "y"]
    >>> MeMoClassifier(d=512).fit(X, y).predict([["a", "e"], ["d", "e"]]).tolist()
    ['x', 'y']
    """

    given_codes: ClassVar[dict[str, str]] = {name: name for name in GIVEN}

    def __init__(  # noqa: PLR0913, PLR0917  scikit-learn's form of parameters
        self,
        d: int = 1024,
        d_h: int | None = None,
        tied: bool = False,
        exact: bool = False,
        kernel: str | SiteKernel | None = None,
        vote: str | Vote = "sum",
        random_state: Any = 0,
        codes: Any = None,
        verbose: Any = 0,
        output_codes: Any = None,
        projection: Any = None,
        distribution: str = "gaussian",
        device: str | None = None,
    ) -> None:
        self.d = d
        self.d_h = d_h
        self.tied = tied
        self.exact = exact
        self.kernel = kernel
        self.vote = vote
        self.random_state = random_state
        self.codes = codes
        self.verbose = verbose
        self.output_codes = output_codes
        self.projection = projection
        self.distribution = distribution
        self.device = device

    def settings(self) -> ModelSettings:
        """Return the parameters as one value: what the steps of an edit take."""
        return ModelSettings(
            task=LABELS,
            kernel=self.kernel,
            vote=self.vote,
            random_state=self.random_state,
            missing="refuse",
            keep="auto",
            numeric=None,
            class_weight=None,
            memory=self._make_memory,
        )

    def _make_memory(self) -> Memory:
        rows = {}
        for name in GIVEN:
            value = getattr(self, name)
            rows[name] = None if value is None else GivenRows.of(value, name)
        return Gaussian(
            self.d,
            self.d_h,
            self.tied,
            self.exact,
            token_codes=rows["codes"],
            label_codes=rows["output_codes"],
            projection=rows["projection"],
            distribution=self.distribution,
            device=self.device,
        )

    def encode(self, X: Any) -> Floats:
        """Return the code φ of each context: a block of projected codes per position.

        Shapes
        ------
        X : (m, h); returned : (m, p)
        """
        return self._encode_contexts(X)[1]

    def retrieve(self, X: Any) -> Floats:
        """Return the retrieved vector Cᵀφ of each context, before it is decoded.

        With the paper's kernel, its product with the output codes
        ``memory_.codes.outputs(classes_)`` is the score.

        Shapes
        ------
        X : (m, h); returned : (m, d)
        """
        memory, keys = self._encode_contexts(X)
        return keys @ memory.C

    def _encode_contexts(self, X: Any) -> tuple[Gaussian, Floats]:
        """Return the memory of one version of the model, and the codes of contexts under it."""
        model = self.now()
        contexts = model.contexts(X)
        memory = cast("Gaussian", model.memory_.now())
        keys = site_keys(contexts, memory.sites, memory.input_codes)
        return memory, keys.reshape(len(contexts), -1)
