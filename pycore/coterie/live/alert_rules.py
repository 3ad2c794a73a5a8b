"""The alert rules for Prometheus, with what ``rise(TOTAL[TIME])`` in their source stands for.

``increase`` misses the first event of a total that appears with it, and takes a watcher that counts
anew for a rise. So ``rise`` is the difference to the last value before TIME. Without one, it is the
whole total, if the series is younger than the scrapes of its watcher: otherwise it may be an old
total that was scraped for the first time. A total that has fallen rises from its least value.
"""

from __future__ import annotations

import re
from importlib.resources import files

# Scraped with every total, and only with them.
WATCHER = "coterie_watch_newest_record_age_seconds"
MEMORY = "3d"  # a series that is back after a weekend goes on from its value
RISE = re.compile(r"^( +)(.*?)rise\((\w+(?:\{.*?\})?)\[(\w+)\]\)", re.M)
MEANING = """\
(
{0}  {1} - (
{0}    last_over_time({1}[{MEMORY}] offset {2})
{0}    or 0 * {1} unless count_over_time({1}[{2}])
{0}    >= on (job, instance) group_left () count_over_time({WATCHER}[{2}])
{0}  ) > 0
{0}  or {1} - min_over_time({1}[{2}])
{0})"""


def alert_rules() -> str:
    text = (files("coterie.live") / "shipped/alerts.yml").read_text(encoding="utf-8")

    def meaning(call: re.Match[str]) -> str:
        indent, before, total, time = call.groups()
        text = MEANING.format(indent, total, time, MEMORY=MEMORY, WATCHER=WATCHER)
        return f"{indent}{before}{text}"

    return RISE.sub(meaning, text)
