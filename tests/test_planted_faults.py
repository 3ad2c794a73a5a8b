"""The list of ``tools/plant_faults.py``: each fault can be planted. Catching them takes hours."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("plant_faults", ROOT / "tools/plant_faults.py")
plant_faults = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = plant_faults  # where a dataclass looks its module up
SPEC.loader.exec_module(plant_faults)
FAULTS = plant_faults.read_faults()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_the_text_that_a_fault_replaces_occurs_once(fault):
    assert fault.stale(ROOT) is None
    assert fault.new != fault.old


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_a_fault_names_tests_that_there_are(fault):
    assert fault.tests
    for test in fault.tests:
        path, *names = test.split("::")
        assert (ROOT / path).exists(), path
        text = (ROOT / path).read_text(encoding="utf-8") if names else ""
        assert all(f"def {name.partition('[')[0]}(" in text for name in names), test


def test_each_fault_has_an_id_of_its_own_and_a_kind_that_is_known():
    ids = [fault.id for fault in FAULTS]
    assert len(ids) == len(set(ids))
    assert {fault.kind for fault in FAULTS} <= set(plant_faults.KINDS)


@pytest.mark.parametrize(
    ("file", "old", "stale"),
    [
        ("some.py", "a < b", False),
        ("some.py", "a <= b", True),
        ("some.py", "if", True),
        ("none.py", "a < b", True),
    ],
)
def test_a_text_that_is_gone_or_stands_twice_is_stale(tmp_path, file, old, stale):
    (tmp_path / "some.py").write_text("if a < b:\nif c:\n")
    fault = plant_faults.Fault("room", "id", file, old, "new", "bound", "it", ())
    assert (fault.stale(tmp_path) is not None) == stale
