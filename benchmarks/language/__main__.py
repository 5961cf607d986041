"""The command: measure the models, one after the other, and print the table."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

# before a library reads them
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))  # for python -m

from measures import options  # noqa: E402

from .kenlm import KenLM  # noqa: E402
from .kneser_ney import KneserNey  # noqa: E402
from .ours import all_of_ours, markdown, run  # noqa: E402

if TYPE_CHECKING:
    from .ours import LanguageModel

MODELS: dict[str, LanguageModel] = {model.name: model for model in (KneserNey(), *all_of_ours())}


def main() -> None:
    """Print the table, or everything as JSON."""
    parser = options(__doc__, data="wiki.train.tokens, .valid and .test", as_json="everything")
    parser.add_argument(
        "--models", nargs="+", choices=MODELS, metavar="NAME", help=f"of {', '.join(MODELS)}"
    )
    parser.add_argument(
        "--most", type=int, help="ask the first so many targets only, of validation and of test"
    )
    parser.add_argument(
        "--kenlm", type=Path, metavar="FOLDER", help="measure KenLM, too: where lmplz and query are"
    )
    arguments = parser.parse_args()
    models = [MODELS[name] for name in arguments.models or MODELS]
    with tempfile.TemporaryDirectory() as folder:
        if arguments.kenlm:
            models.append(KenLM(arguments.kenlm, Path(folder)))
        results = run(arguments.data, models, most=arguments.most)
    print(json.dumps(results, indent=2) if arguments.json else markdown(results))


if __name__ == "__main__":
    main()
