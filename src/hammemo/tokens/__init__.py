"""Tokens: what they are, the contexts and examples made of them, labels, streams, and their hashes.

Imports `_arrays` only; every package above may import it.
"""

from hammemo.tokens.vocabulary import NO_TOKEN, Token, Vocabulary, as_token, factorize

__all__ = ["NO_TOKEN", "Token", "Vocabulary", "as_token", "factorize"]
