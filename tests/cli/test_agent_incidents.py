"""A client that follows the prompt ``incident`` over logs of incidents: what the tools answer.

The checks are those of ``../shared/golden/incidents``, with the truth of each beside them: what the
programs did that made the logs. A row is found by some of its fields, texts by what is in them.
B7 is not here: records that a retention took while a consumer was paused leave no trace.
"""

import asyncio
import json

import pytest

from support import golden_data

pytest.importorskip("mcp_types")  # of mcp 2
from support.agent_client import client_of, pages

KAFKA3, KAFKA4, AGAIN = "b-391", "b-440", "b-440-after-deletion"
DAY = "2026-11-28T"
NONE = ()  # the answer has no rows
CHECKS = {
    "B1 records were skipped": (
        *(KAFKA3, "audit", {"group": ["weekend"]}),
        {"detail": "about 988 records never committed: orders-2 199 to 703, orders-3 210 to 694"},
        {"detail": "about 1,028 records never committed: orders-0 188 to 681, orders-1 202 to 737"},
        {"detail": f"removed at {DAY}19:40:31.780Z"},
    ),
    "B2 records were consumed twice": (
        *(KAFKA3, "audit", {"group": ["reread"]}),
        {"detail": "or read again, if auto.offset.reset was earliest"},
    ),
    "B3 records were consumed twice": (
        *(KAFKA3, "explain", {"group": ["billing"]}),
        {
            **{"event": "reset", "timestamp": f"{DAY}19:39:32.198Z"},
            "cause": "bill-0 175 to 69, bill-2 195 to 67, bill-1 228 to 87; by a tool",
        },
        {"timestamp": f"{DAY}19:39:49.339Z", "cause": "set forward: bill-0 69 to 175"},
    ),
    "B4 records were skipped": (
        *(KAFKA3, "audit", {"group": ["billing"], "only": ["skip"]}),
        NONE,
    ),
    "B5 offsets are to go back": (
        KAFKA3,
        "undo",
        {
            **{"group": ["billing"], "before": f"{DAY}19:39:32.198Z"},
            **{"until": f"{DAY}19:39:40Z", "retention": "1m"},
        },
        *(
            {
                **{"topic": "bill", "partition": partition, "offset": offset},
                "expires_at": f"{DAY}19:40:27.292Z",
            }
            for partition, offset in ((0, 175), (1, 228), (2, 195))
        ),
    ),
    "B6 offsets are to go back": (
        KAFKA3,
        "undo",
        {
            **{"group": ["billing-live"], "before": f"{DAY}19:39:33.507Z"},
            "until": f"{DAY}19:39:50Z",
        },
        {"topic": "bill", "partition": 0, "change": "moved", "offset": 176},
        "goes back",
    ),
    "B8 records were consumed twice": (
        *(KAFKA3, "explain", {"group": ["billing"]}),
        {"event": "reset", "cause": "adminclient-1"},
    ),
    "B9 offsets are gone": (
        *(KAFKA3, "explain", {"group": ["weekend"]}),
        {
            **{"event": "offsets_removed", "timestamp": f"{DAY}19:40:31.780Z"},
            "cause": "expired [server log]",
        },
        {"event": "empty", "duration_ms": range(64_000, 65_000)},
    ),
    "B10 offsets are gone": (
        *(KAFKA3, "expire", {"group": ["weekend", "billing-eu"], "retention": "1m"}),
        *(
            {"group_id": "billing-eu", "partition": partition, "status": "removed"}
            for partition in range(3)
        ),
        *(
            {"group_id": "weekend", "state": "Stable", "partition": partition, "status": "kept"}
            for partition in range(4)
        ),
    ),
    "B11 groups of 4.x": (
        *(KAFKA4, "groups", {"list": True, "kind": "any"}),
        *({"group": name} for name in ("sh", "counts", "nextgen")),
    ),
    "B12 a share group": (
        KAFKA4,
        "groups",
        {
            **{"describe": True, "members": True, "verbose": True},
            **{"group": ["sh"], "kind": "share"},
        },
        {
            **{"consumer_id": "_2mUw__KTNmdly4V4AMnjQ", "partitions": 2, "member_epoch": 9},
            "assignment": {"clicks": [0, 1]},
        },
    ),
    "B13 a group rebalances": (
        *(KAFKA4, "explain", {"group": ["counts"]}),
        {
            **{"timestamp": f"{DAY}19:45:47.180Z", "generation": 5, "member_count": 1},
            "cause": "st-2-StreamThread-1-consumer (127.0.0.1) left or was evicted",
        },
        {
            **{"timestamp": f"{DAY}19:46:08.600Z", "generation": 6, "member_count": 2},
            "cause": "joined",
        },
    ),
    "B14 a group rebalances": (
        *(KAFKA4, "explain", {"group": ["counts", "sh"]}),
        {"group_id": "counts", "cause": "st-1-StreamThread-1-consumer (127.0.0.1) joined"},
    ),
    "B15 records of 4.x": (
        *(KAFKA4, "records", {"partition": 5, "offset": 1400, "limit": 1000}),
        {"value": '"topicId": "NZYL1-oDRuqFu3kho_lavQ"'},
        {"value": "assignmentTimestamp"},
    ),
    "B16 a broker failed": (KAFKA4, "verify", {}, NONE, "the partition's broker restarted"),
    "B17 a group rebalances": (
        *(KAFKA4, "audit", {"only": ["flapping"], "group": ["weekend", "reread", "billing"]}),
        NONE,
    ),
    "B18 the topic was made again": (
        *(AGAIN, "explain", {"group": ["weekend"]}),
        {"timestamp": f"{DAY}19:46:50"},
    ),
}


FILES = {
    "B8": [("--request-log", "b-391-request-billing.log.gz")],
    "B9": [("--server-log", "b-391-server.log.gz")],
}


def is_like(value, expected):
    if isinstance(expected, range):
        return value in expected
    return value == expected or (isinstance(expected, str) and expected in json.dumps(value))


def is_in(row, expected):
    return all(name in row and is_like(row[name], value) for name, value in expected.items())


@pytest.mark.parametrize("symptom", CHECKS)
def test_the_tools_of_the_prompt_answer_what_happened(symptom):
    case, tool, arguments, *expected = CHECKS[symptom]
    logs = golden_data.shared("incidents") / "logs"
    files = FILES.get(symptom.split()[0], ())
    source = {"files": tuple((option, str(logs / name)) for option, name in files)}

    async def follow():
        async with client_of(logs / case, **source) as client:
            prompt = await client.get_prompt("incident", {"symptom": symptom})
            assert f"`{tool}`" in prompt.messages[0].content.text
            return await pages(client, tool, arguments)

    answer = asyncio.run(follow())
    rows, notes = [row for page in answer for row in page["rows"]], answer[0]["notes"]
    for one in expected:
        if one == NONE:
            assert not rows
        elif isinstance(one, str):
            assert [note for note in notes if one in note], notes
        else:
            assert [row for row in rows if is_in(row, one)], one
