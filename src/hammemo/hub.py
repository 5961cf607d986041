"""Models on the Hugging Face hub.

`OnHub` has `push_to_hub`, `save_pretrained` and `from_pretrained` from the hub's own mixin. The
repository holds one model file, as `hammemo.save` writes it, and a card made from the model's
report. A file holds no code, and loading runs none. What is on the hub stays in its history: after
`forget`, push again and delete the old revisions.

>>> from hammemo import MemoryClassifier
>>> from hammemo.hub import OnHub
>>> clf = MemoryClassifier().fit([["a", "b"], ["c", "d"]], ["x", "y"])
>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     # OnHub(clf).push_to_hub("you/model") does the same, and uploads it
...     _ = OnHub(clf).save_pretrained(folder)
...     OnHub.from_pretrained(folder).model.predict([["c", "b"]]).tolist()
['x']
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from hammemo._lazy import explain_missing
from hammemo.estimators.learners import Learner
from hammemo.files.models import load, save

with explain_missing("The hub needs its package: pip install 'hammemo[hub]'"):
    from huggingface_hub import ModelCard, ModelHubMixin, hf_hub_download

if TYPE_CHECKING:
    from pathlib import Path

    from hammemo.files.contents import Savable

FILE = "model.safetensors"

_DOWNLOAD_OPTIONS = ("revision", "cache_dir", "force_download", "local_files_only", "token")
"""Those of the hub's options for `from_pretrained` that its download takes, too."""

_CARD = """---
library_name: hammemo
tags:
- hammemo
- categorical
- machine-unlearning
---

# A hammemo model

```
{report}
```

```python
from hammemo.hub import OnHub

model = OnHub.from_pretrained("this repository").model
```

The model is a table of counts: examples can be added and removed exactly (`partial_fit`, `forget`).
"""


class OnHub(ModelHubMixin):
    """A model with the methods of the hub.

    Parameters
    ----------
    model : MemoryClassifier, MemoryRegressor or Predictor
    """

    def __init__(self, model: Savable) -> None:
        self.model = model

    def generate_model_card(self, *args: Any, **kwargs: Any) -> ModelCard:  # noqa: ARG002
        """Return a card that shows the model's report."""
        report: object = self.model
        if isinstance(self.model, Learner):  # a compiled predictor has no report
            report = self.model.report()
        return ModelCard(_CARD.format(report=report))

    def _save_pretrained(self, save_directory: Path) -> None:
        save(self.model, save_directory / FILE)

    @classmethod
    def _from_pretrained(
        cls,
        *,
        model_id: str,
        key: bytes | None = None,
        trust: tuple[type, ...] = (),
        **options: Any,
    ) -> OnHub:
        """Return the model of a folder or of a repository.

        `key` and `trust` are those of `hammemo.load`.
        """
        path = os.path.join(model_id, FILE)
        if not os.path.isdir(model_id):
            names = options.keys() & set(_DOWNLOAD_OPTIONS)
            path = hf_hub_download(model_id, FILE, **{name: options[name] for name in names})
        return cls(load(path, key=key, trust=trust))
