"""Requests from the document of the interface, by schemathesis: ``service_schema.py N`` sends at least N of them.

Half of them are as the document says, half are not. No answer may be a 500, none may have a status, a content type or a
body that the document does not have for it. Needs ``pip install schemathesis``.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3] / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from hammemo.client import Client
from running_servers import Process

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


def run(n: int, folder: Path) -> dict[str, Any]:
    """Send requests to a server of its own."""
    statuses: Counter[int] = Counter()
    with Process(folder, "--log-level", "error", "--max-models", "8") as server:
        with Client(server.url) as client:
            client.create("m", columns=2)
            client.learn("m", [["a", "b"], ["c", 1]], ["x", "y"], op="first")
        schema: Any = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
        operations = [result.ok() for result in schema.get_all_operations()]
        each = -(-n // (2 * len(operations)))
        asked: Counter[str] = Counter()
        for operation in operations:
            for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):
                _ask(operation, mode, each, statuses, asked)
        few = {label: count for label, count in asked.items() if count < each}
        rest = n - sum(statuses.values())
        if rest > 0:  # some operations have few different requests
            predict = next(operation for operation in operations if operation.label.endswith("/predict"))
            _ask(predict, schemathesis.GenerationMode.NEGATIVE, 3 * rest, statuses, asked)
        failures = [line for line in server.lines if line.get("event") == "failed"]
    return {
        "requests": sum(statuses.values()),
        "statuses": dict(sorted(statuses.items())),
        "failures": failures,
        "few": few,
    }


def _ask(operation: Any, mode: Any, most: int, statuses: Counter[int], asked: Counter[str]) -> None:
    @settings(
        max_examples=most,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        if "model" in case.path_parameters and sum(asked.values()) % 2:
            case.path_parameters["model"] = "m"  # else hardly any request would meet a model
        response = case.call()
        statuses[response.status_code] += 1
        asked[operation.label] += 1
        case.validate_response(response, checks=CHECKS)

    with suppress(Unsatisfiable):  # what has neither a parameter nor a body cannot be asked wrongly
        ask()


def main() -> None:
    """Run and print."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as folder:
        found = run(n, Path(folder))
    print(found)
    if found["failures"] or found["requests"] < n:
        sys.exit("the server failed, or too few requests were made")


if __name__ == "__main__":
    main()
