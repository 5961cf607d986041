"""Check whether `refit` accepts the parameters of a model, before it is saved and after loading.

A model that was loaded is refitted with its parameters, perhaps weeks later. So what `refit` would
refuse is refused when the file is read, and no file is written that would be. The checks are those
of `fit` itself; each error names the parameter. They allocate nothing that a number in a file could
make large.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hammemo.edits.column_changes import can_decide, check_numeric, decide_by_rows, find_numbers
from hammemo.edits.settings import choose_seed, read_row_limit
from hammemo.files.descriptions import naming_parameter
from hammemo.kernels import AutoSites
from hammemo.kernels.sites import MAX_POSITIONS
from hammemo.memories.secret_keys import check_secret
from hammemo.stores.digest_store import Digests, DigestStore
from hammemo.tasks.labels.automatic import make_kernel
from hammemo.tokens.missing import check_missing_rule

if TYPE_CHECKING:
    from hammemo.edits.state import AnyState
    from hammemo.kernels import SiteKernel
    from hammemo.kernels.sites import Sites
    from hammemo.memories import Memory
    from hammemo.tasks.labels.layout import LabelState
    from hammemo.tasks.labels.settings import ModelSettings
    from hammemo.tasks.numbers.settings import NumberSettings
    from hammemo.tasks.numbers.state import NumberState
    from hammemo.votes import Vote


def check_label_parameters(settings: ModelSettings, state: LabelState) -> None:
    """Refuse parameters of a classifier with which `refit` could not begin."""
    _check_reading(settings, state)
    with naming_parameter("keep", settings.keep):
        _check_keep(settings, state)
    with naming_parameter("memory", settings.memory):
        memory = settings.new_memory()
        _check_secrets(memory, state.memory)
    with naming_parameter("vote", settings.vote):
        vote = settings.vote_for(2, memory)
        vote.check_parameters()
        _check_readable(vote, memory)
    with naming_parameter("class_weight", settings.class_weight):
        settings.with_class_weight(vote)
    with naming_parameter("kernel", settings.kernel):
        kernel = make_kernel(settings.kernel, memory, vote).with_positions(state.columns.names)
        sites = _sites_of(kernel, settings, state)
        vote.check_reads(sites)
    with naming_parameter("memory", settings.memory):
        memory.check_parameters(sites)
    if not isinstance(kernel, AutoSites):  # whose sites are still to be chosen
        with naming_parameter("vote", settings.vote):
            vote.check_sites(sites)


def check_number_parameters(settings: NumberSettings, state: NumberState) -> None:
    """Refuse parameters of a regressor with which `refit` could not begin."""
    _check_reading(settings, state)
    with naming_parameter("keep", settings.keep):
        read_row_limit(settings.keep)


def _check_reading(settings: ModelSettings | NumberSettings, state: AnyState) -> None:
    """Refuse what labels and numbers have in common: the seed, and how rows are read."""
    with naming_parameter("missing", settings.missing):
        check_missing_rule(settings.missing)
    # Only of whole numbers: asking a generator, which no file holds, would change its state.
    if isinstance(settings.random_state, int):
        with naming_parameter("random_state", settings.random_state):
            choose_seed(settings.random_state)
    if settings.numeric is not None:
        with naming_parameter("numeric", settings.numeric):
            _check_numeric(settings, state)


def _check_numeric(settings: ModelSettings | NumberSettings, state: AnyState) -> None:
    """Refuse columns that are not there, or that hold names which cannot become numbers."""
    columns = state.columns
    places = find_numbers(settings, columns)
    if places is None or columns.types is None:
        return
    numbers = {place for place, kind in enumerate(columns.kinds) if kind.is_ordered}
    if places == numbers:
        return  # as most are: the rows are not read
    check_numeric(settings, state)
    if can_decide(state) and state.store is not None:
        decide_by_rows(settings, columns, state.store)


def _check_keep(settings: ModelSettings, state: LabelState) -> None:
    """Refuse a wrong number of rows, and digests with another key than the stored ones."""
    digests = Digests.of(settings.keep)
    if digests is None:
        read_row_limit(settings.keep, digests=True)
        return
    read_row_limit(digests.rows, digests=True)
    check_secret(digests.key)
    store = state.store
    if isinstance(store, DigestStore):
        with_this_key = DigestStore(store.h, store.seed, digests.key)
        if not with_this_key.is_keyed_like(store):
            raise ValueError("the digests that the model stores have another key or another seed")


def _check_secrets(memory: Memory | None, fitted: Memory | None) -> None:
    """Refuse a memory with a secret key that the fitted one does not use.

    A file has one key, which may be that of its digests alone.
    """
    if memory is None:
        return
    secret = memory.secret
    if secret is not None and getattr(memory, secret) not in (None, getattr(fitted, secret, None)):
        raise ValueError("it says that the memory has a secret key, and the stored counts use none")
    for (
        name
    ) in memory.inner:  # a fitted memory has those inside it under their names with an underscore
        _check_secrets(getattr(memory, name), getattr(fitted, f"{name}_", None))


def _check_readable(vote: Vote, memory: Memory) -> None:
    """Refuse a memory that does not keep what a vote reads."""
    if vote.needs_rows and not memory.keeps_rows():
        raise ValueError(f"{vote!r} reads rows of counts, which memory={memory!r} does not keep")
    if vote.needs_exact_rows and not memory.has_exact_rows:
        raise ValueError(
            f"{vote!r} reads rows of exact counts, which memory={memory!r} does not keep"
        )


def _sites_of(kernel: SiteKernel, settings: ModelSettings, state: LabelState) -> Sites:
    """Return the sites that `refit` would compare; refuse a kernel of too many before listing them.

    Sites that rows choose stay as they are: no parameter says which ones the next refit chooses.
    """
    if isinstance(kernel, AutoSites):
        kernel.resolve(1)  # this checks its parameters
    if settings.kernel_is_automatic:
        return state.layout.sites
    # A given kernel compares columns; under a layout that was given, refit does not ask for it
    # again.
    n_positions = state.columns.n
    if state.pinned:
        n_positions = state.layout.sites.h
    if kernel.least_positions(n_positions) > MAX_POSITIONS:
        raise ValueError(f"{kernel!r} compares more than {MAX_POSITIONS:,} positions")
    sites = kernel.resolve(n_positions)
    sites.check_size()
    return sites
