"""Topics that exist from the start: check them and the defaults of their settings, create them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from coterie.base.settings import InvalidConfig
from coterie.errors import ArgumentError, ConfigError, CoterieError
from coterie.server.cluster import Cluster
from coterie.server.config import Settings
from coterie.server.options import TopicOptions
from coterie.server.releases import Release
from coterie.server.services.topics import INTERNAL, refuse_other_counts
from coterie.server.topic_configs import check_configs, read_config, topic_configs_of


def refuse_wrong_topics(
    topics: Mapping[str, TopicOptions], settings: Settings, release: Release
) -> None:
    """Refuse settings of topics that do not exist or have a wrong value.

    Raises
    ------
    ArgumentError, ConfigError
        The message names the topic, or the server's setting that is a default.
    """
    known = topic_configs_of(release.name)
    for row in known.values():
        if row.server is not None and row.server in settings:
            with _named(row.server, ConfigError):
                read_config(known, row.name, str(settings[row.server]))
    refuse_other_counts({name: topic.partitions for name, topic in topics.items()}, settings)
    for name, topic in topics.items():
        with _named(f"topic {name}", ArgumentError):
            check_configs(known, topic.configs)


@contextlib.contextmanager
def _named(where: str, kind: type[CoterieError]) -> Iterator[None]:
    """Turn an InvalidConfig into an error that names the topic or the setting."""
    try:
        yield
    except InvalidConfig as error:
        raise kind(f"{where}: {error}") from None


def make_topics(cluster: Cluster, topics: Mapping[str, TopicOptions]) -> None:
    """Create topics with their settings; the default number of partitions is ``num.partitions``."""
    for name, options in topics.items():
        if name in INTERNAL:
            topic = cluster.topics.internal(name)
            cluster.topics.configure(topic, {**topic.configs, **options.configs})
        else:
            partitions = options.partitions or cluster.config["num.partitions"]
            cluster.topics.create(name, partitions, options.configs)
