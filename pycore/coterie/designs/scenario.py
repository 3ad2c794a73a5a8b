"""A scenario: who starts, closes or dies, what fails and when; read from a file and checked.

Anything wrong in a file is a :class:`ScenarioError`: one line that names the place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coterie.base.arguments import called
from coterie.designs.checks import CHECKS, ScenarioError
from coterie.designs.op_reader import OpReader, check_settings
from coterie.designs.ops import Op
from coterie.errors import shown

FORMAT = "coterie-zk08"
SIMPLE_FORMAT = "coterie-simple08"  # of SimpleConsumer: its scenarios have no groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A scenario's ``config``."""

    brokers: tuple[int, ...] = (0,)
    brokers_up: bool = True
    broker: Mapping[str, Any] = field(default_factory=dict)
    consumer: Mapping[str, Any] = field(default_factory=dict)
    tick_ms: int = 500

    @property
    def deletes_topics(self) -> bool:
        """Whether brokers delete topics (``delete.topic.enable``)."""
        return str(self.broker.get("delete.topic.enable", "false")).lower() == "true"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A scenario: name, description, settings and ops."""

    name: str
    doc: str
    config: Config
    ops: tuple[Op, ...]


@called
def read_scenario(value: Any, *, name: str = "") -> Scenario:
    """Read a scenario from the content of a JSON file.

    Parameters
    ----------
    value
        The object in the file.
    name : str
        The name to use if the scenario has none.

    Raises
    ------
    ScenarioError
        The scenario is wrong. The message is one line that names the place.

    Examples
    --------
    >>> read_scenario({"format": "coterie-zk08", "name": "nothing", "events": []}).ops
    ()
    """
    if not isinstance(value, Mapping):
        raise ScenarioError(f"a scenario is an object, not {shown(value)}")
    form, version = value.get("format", FORMAT), value.get("version", 1)
    if not isinstance(form, str) or form != FORMAT or type(version) is not int or version != 1:
        if isinstance(form, str) and form == SIMPLE_FORMAT:
            raise ScenarioError(f"format: {SIMPLE_FORMAT}: coterie.designs.simple08.run plays it")
        actual = f"{shown(form)} version {shown(version)}"
        raise ScenarioError(f"format: {actual} is not {FORMAT!r} version 1")
    config = _read_config(value.get("config", {}))
    events = value.get("events")
    if not isinstance(events, Sequence) or isinstance(events, str):
        raise ScenarioError(f"events: {shown(events)} is not a list")
    reader = OpReader(config.consumer, config.brokers, deletes_topics=config.deletes_topics)
    ops = tuple(reader.op(event, f"events[{i}]") for i, event in enumerate(events))
    reader.check_stopped_groups()
    return Scenario(
        name=CHECKS["text"](value.get("name", name), "name"),
        doc=CHECKS["text"](value.get("doc", ""), "doc"),
        config=config,
        ops=ops,
    )


def _read_config(value: Any) -> Config:
    if not isinstance(value, Mapping):
        raise ScenarioError(f"config: {shown(value)} is not an object")
    checks: dict[str, tuple[str, str]] = {
        "brokers": ("brokers", "ids"),
        "brokers_up": ("brokers_up", "bool"),
        "broker": ("broker", "settings"),
        "consumer": ("consumer", "settings"),
        "zookeeper.tick.ms": ("tick_ms", "positive"),
    }
    values = {
        checks[key][0]: CHECKS[checks[key][1]](setting, f"config.{key}")
        for key, setting in value.items()
        if key in checks
    }
    config = Config(**values)
    check_settings(config.consumer, place="config.consumer")
    return config
