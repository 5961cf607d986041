"""KenLM (Heafield et al. 2013) by its programs `lmplz` and `query`.

It is modified Kneser-Ney, to check ours against.

The text is given as one line, because contexts cross lines here, and tokens as names of numbers,
because `lmplz` does not take ``<unk>``. KenLM has three types more than we have: the beginning, the
end and its own unknown token.

The programs are in the source that ``pip download kenlm`` fetches; they need Boost and are built by
its CMakeLists.txt (``cmake -B build && make -C build lmplz query``).
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import numpy as np

from .ours import LanguageModel

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from .ours import Text


class KenLM(LanguageModel):
    """Modified Kneser-Ney 5-grams by KenLM.

    Parameters
    ----------
    programs : Path
        The folder with `lmplz` and `query`.
    folder : Path
        Where its files are kept.
    order : int
    """

    name = "KenLM 5"

    def __init__(self, programs: Path, folder: Path, order: int = 5) -> None:
        self.programs = programs
        self.folder = folder
        self.order = order

    def fit(self, text: Text) -> None:
        """Count the training stream."""
        self.count(text.train)

    def count(self, stream: NDArray[np.int64]) -> None:
        """Count the n-grams of a stream."""
        options = ["-o", str(self.order), "-S", "1G", "-T", str(self.folder), "--arpa", self._model]
        self._run("lmplz", options, stream)

    def probabilities(self, stream: NDArray[np.int64], start: int) -> NDArray[np.float64]:
        """Return the probability of every token from `start` on."""
        printed = self._run("query", ["-v", "word", self._model], stream)
        words = printed.partition("\n")[0].split("\t")
        logarithms = [float(word.rsplit(" ", 1)[1]) for word in words if word.startswith("t")]
        return np.asarray(10.0 ** np.array(logarithms[start:]), np.float64)

    @property
    def _model(self) -> str:
        return str(self.folder / "model.arpa")

    def _run(self, program: str, options: list[str], stream: NDArray[np.int64]) -> str:
        line = " ".join(f"t{token}" for token in stream.tolist()) + "\n"
        done = subprocess.run(
            [str(self.programs / program), *options],
            input=line,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr.strip().splitlines()[-1]}")
        return done.stdout
