"""Figures for Prometheus: one set for each tenant, which no other sees, and one for the process.

Counters and histograms are counted as requests end; what a model is like (version, log,
snapshot, replay) is read from it when the figures are read.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# they double the number of lines, and say little
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)

Described = tuple[str, dict[str, Any]]
"""The name of a model and what `ServedModel.describe` says of it."""

Quotas = dict[str, tuple[int, int]]
"""How much is stored and may be stored, 0 for any number."""

_OF_A_MODEL: Final = {
    "is_open": "1, or 0 for a model that does not open: it is damaged, or in use elsewhere.",
    "can_edit": "1, or 0 where edits of the model cannot be made durable in this process.",
    "version": "Acknowledged edits: the position in the log.",
    "examples": "Stored examples.",
    "snapshot_version": "The version of the newest snapshot.",
    "snapshot_age_seconds": "Seconds since the newest snapshot.",
    "replay_seconds": "How long the log was replayed when the model was opened.",
    "log_bytes": "Bytes of the log.",
    "bytes": "Bytes of the newest snapshot and of the log.",
}


class _OfTenant:
    def __init__(
        self, described: Callable[[], list[Described]], quotas: Callable[[], Quotas]
    ) -> None:
        self._described = described
        self._quotas = quotas
        self.registry = CollectorRegistry()
        counter = partial(Counter, registry=self.registry)
        self.requests = counter(
            "hammemo_requests", "Requests by what was asked and the status.", ["ask", "status"]
        )
        self.seconds = Histogram(
            "hammemo_request_seconds",
            "How long answers took.",
            ["ask"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.edits = counter("hammemo_edits", "Acknowledged edits.", ["model", "kind", "status"])
        self.examples = counter(
            "hammemo_edited_examples", "Rows of acknowledged edits.", ["model", "kind"]
        )
        self.documents = counter(
            "hammemo_edited_documents", "Documents of acknowledged edits.", ["model", "kind"]
        )
        self.registry.register(self)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield one family of numbers for each fact that models tell now."""
        models = self._described()
        for fact, says in _OF_A_MODEL.items():
            family = GaugeMetricFamily(f"hammemo_model_{fact}", says, labels=["model"])
            for name, facts in models:
                value = facts.get(fact)
                if isinstance(value, (int, float)):
                    family.add_metric([name], value)
            yield family
        stored = GaugeMetricFamily(
            "hammemo_stored", "What all models of the tenant store.", labels=["what"]
        )
        quota = GaugeMetricFamily(
            "hammemo_quota", "What they may store, where there is a quota.", labels=["what"]
        )
        for what, (stored_number, allowed) in self._quotas().items():
            stored.add_metric([what], stored_number)
            if allowed:
                quota.add_metric([what], allowed)
        yield stored
        yield quota

    def forget_model(self, model: str) -> None:
        """Drop the figures that name a model."""
        for metric in (self.edits, self.examples, self.documents):
            samples = [sample for family in metric.collect() for sample in family.samples]
            for labels in {
                tuple(one.labels.values()) for one in samples if one.labels["model"] == model
            }:
                metric.remove(*labels)


class Metrics:
    """All figures of one process."""

    def __init__(
        self,
        described: Callable[[str], list[Described]],
        quotas: Callable[[str], Quotas],
        inside: Callable[[], int],
    ) -> None:
        self._described = described
        self._quotas = quotas
        self._tenants: dict[str, _OfTenant] = {}
        self._counted: dict[
            tuple[str, str, int], tuple[Callable[[], None], Callable[[float], None]]
        ] = {}
        self.process = CollectorRegistry()
        prometheus_client.ProcessCollector(registry=self.process)
        prometheus_client.PlatformCollector(registry=self.process)
        says = "Requests without a token that is known."
        self.refused = Counter("hammemo_refused_tokens", says, registry=self.process)
        Gauge("hammemo_start_time_seconds", "When the server began.", registry=self.process).set(
            time.time()
        )
        answering = Gauge(
            "hammemo_requests_inside", "Requests that are being answered.", registry=self.process
        )
        answering.set_function(inside)

    def of(self, tenant: str) -> _OfTenant:
        """Return the figures of a tenant."""
        if tenant not in self._tenants:
            self._tenants[tenant] = _OfTenant(
                partial(self._described, tenant), partial(self._quotas, tenant)
            )
        return self._tenants[tenant]

    def count(self, tenant: str, ask: str, status: int, seconds: float) -> None:
        """Count one answer."""
        key = (tenant, ask, status)
        if key not in self._counted:
            figures = self.of(tenant)
            self._counted[key] = (
                figures.requests.labels(ask, str(status)).inc,
                figures.seconds.labels(ask).observe,
            )
        count_one, observe = self._counted[key]
        count_one()
        observe(seconds)

    def count_edit(
        self, tenant: str, model: str, kind: str, status: str, *, rows: int = 0, documents: int = 0
    ) -> None:
        """Count one acknowledged edit."""
        figures = self.of(tenant)
        figures.edits.labels(model, kind, status).inc()
        if status == "applied":
            figures.examples.labels(model, kind).inc(rows)
            if documents:
                figures.documents.labels(model, kind).inc(documents)

    def forget_model(self, tenant: str, model: str) -> None:
        """Drop the figures of a model that was deleted."""
        self.of(tenant).forget_model(model)

    def text(self, tenant: str) -> bytes:
        """Return the figures that a tenant may see, in the form of Prometheus."""
        figures = self.process, self.of(tenant).registry
        return b"".join(map(prometheus_client.generate_latest, figures))
