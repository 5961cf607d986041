"""Datasets: small real tables and visits, for examples that run as they stand.

`loading` reads them; ``README.md`` beside it says where each comes from and under which licence it
may be passed on. Imports nothing of hammemo; nothing but examples, pages and tests needs it.
"""

from hammemo.datasets.loading import load_sessions, load_table

__all__ = ["load_sessions", "load_table"]
