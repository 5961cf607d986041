"""How a check says what is wrong: the promise that was broken, by whom, and on which examples.

A check is a function with the decorator `promise`. Whatever goes wrong inside it, a failed
`require` or an exception of the part on trial, becomes a `BrokenPromiseError`. `require` is a
function and not an ``assert`` statement, which ``python -O`` would leave out.
"""

from __future__ import annotations

import re
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np

from hammemo.tokens.vocabulary import NO_TOKEN

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

P = ParamSpec("P")

_LONGEST = 2000
"""The most characters of one argument that a message shows."""


class BrokenPromiseError(AssertionError):
    """Raised by a check: a part does not keep a promise of its contract."""


def promise(text: str) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Return a decorator for a check of this promise.

    The first argument of the check is what is on trial.

    Examples
    --------
    >>> from contract_checks.promises import promise, require
    >>> @promise("numbers are even")
    ... def numbers_are_even(name, numbers):
    ...     require(all(number % 2 == 0 for number in numbers), "a number is odd")
    >>> numbers_are_even("my list", [2, 3])
    Traceback (most recent call last):
        ...
    contract_checks.promises.BrokenPromiseError: my list breaks a promise: numbers are even.
    What happened: a number is odd
    numbers_are_even was called with [2, 3]
    """

    def decorate(check: Callable[P, None]) -> Callable[P, None]:
        @wraps(check)
        def check_and_explain(*args: P.args, **kwargs: P.kwargs) -> None:
            try:
                check(*args, **kwargs)
            except BrokenPromiseError:
                raise
            except Exception as error:
                lines = [
                    f"{args[0]} breaks a promise: {text}.",
                    f"What happened: {_describe_error(error)}",
                ]
                arguments = [_shorten(value) for value in (*args[1:], *kwargs.values())]
                if arguments:
                    lines.append(f"{check.__name__} was called with {', '.join(arguments)}")
                message = "\n".join(lines).replace(str(NO_TOKEN), "NO_TOKEN")
                raise BrokenPromiseError(message) from error

        return check_and_explain

    return decorate


def require(condition: Any, message: str) -> None:
    """Raise AssertionError with this message unless the condition holds."""
    if not condition:
        raise AssertionError(message)


def require_equal(actual: Any, expected: Any, what: str) -> None:
    """Raise AssertionError unless two arrays have the same shape and the same values."""
    np.testing.assert_array_equal(
        np.asarray(actual), np.asarray(expected), err_msg=what, strict=False
    )
    require(
        np.shape(actual) == np.shape(expected),
        f"{what}: shape {np.shape(actual)}, not {np.shape(expected)}",
    )


def require_close(actual: NDArray[Any], expected: NDArray[Any], what: str, *, atol: float) -> None:
    """Raise AssertionError unless two arrays agree up to `atol`."""
    np.testing.assert_allclose(actual, expected, rtol=0, atol=atol, err_msg=what)


def require_refusal(kind: type[Exception], pattern: str, action: Callable[[], object]) -> None:
    """Raise AssertionError unless the action raises this error, with the pattern in its message."""
    try:
        action()
    except kind as error:
        require(
            re.search(pattern, str(error)),
            f"the {kind.__name__} says {str(error)!r}, not {pattern!r}",
        )
    else:
        raise AssertionError(f"{kind.__name__} was not raised")


def _describe_error(error: Exception) -> str:
    text = str(error).strip()
    if text and isinstance(error, AssertionError):  # by `require`, which says all
        return text
    return f"{type(error).__name__}: {text}"


def _shorten(value: Any) -> str:
    text = repr(value)
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}…"
