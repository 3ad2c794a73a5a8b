"""``coterie watch`` as a process: what it serves, how it ends, what it refuses."""

import json
import os
import re
import shutil
import signal

import pytest
import trustme

from coterie.cli.watch import login_of, place_of_listen
from coterie.errors import ArgumentError
from support import golden_data
from support.commandline import coterie_ok, fails
from support.growing_log import GrowingLog
from support.insight.compacted_logs import Written
from support.insight.lives import commit, life, member, written
from support.log_writer import batch
from support.watch.watch_process import watching

GROUP = "grp-java-sticky"
OTHER = "0.0.0.0:9308"


def commits(count, start=0):
    log = Written()
    for offset in range(start + count):
        log.now_ms += 1_000
        log.apply("commit", ((b"g", b"t", offset % 2), offset))
    return log


def test_metrics_are_those_of_the_command_on_the_same_log_and_totals_of_groups_that_are_gone():
    expected = coterie_ok("metrics", golden_data.log("basic")).stdout
    with watching(golden_data.log("basic")) as watch:
        status, text = watch.get("/metrics")
        assert status == 200
        own = text.index("# HELP coterie_consumergroup_rebalances_total")
        more = text[:own].splitlines()
        groups = set(re.findall(r'group="([^"]*)"', expected))
        gone = [line for line in more if not groups.intersection(re.findall(r'"([^"]*)"', line))]
        gone = [line for line in gone if line[0] != "#"]
        assert [line for line in more if line not in gone] == expected.splitlines()
        assert gone
        assert all("_total{" in line for line in gone)
        assert watch.health()["behind_bytes"] == 0


def test_what_is_appended_is_shown_and_signals_end_it_with_status_0(tmp_path):
    log = GrowingLog(tmp_path / "log")
    log.put(commits(2).left)
    for number in (signal.SIGINT, signal.SIGTERM):
        with watching(log.home) as watch:
            before = watch.samples()
            log.put(commits(5 + number).left)
            watch.look_again()
            assert watch.samples() != before
            rows = json.loads(watch.get("/api/metrics?group=g")[1])
            assert rows[0]["commits"] == 5 + number
            assert watch.end(number) == (0, "")


def test_a_page_changes_when_the_group_rebalances(tmp_path):
    pytest.importorskip("jinja2")
    folder = written(tmp_path, life(1_000, 1, member("m")), commit(2_000, {0: 7}))
    segment = next(folder.glob("*/*.log"))
    with watching(folder) as watch:
        before = watch.get("/groups/g")[1]
        assert watch.get("/groups/g")[1] == before
        with segment.open("ab") as file:
            file.write(batch(2, [life(3_000, 2, member("m"), member("n"))]))
        watch.look_again()
        assert watch.get("/groups/g")[1] != before
        rows = json.loads(watch.get("/api/explain?group=g")[1])
        assert [row["generation"] for row in rows if row["event"] == "generation"] == [1, 2]
        assert watch.get("/")[0] == 200


@pytest.mark.parametrize("name", ["explain", "growth", "expire"])
def test_questions_have_the_rows_of_their_commands(name):
    log = golden_data.log("basic")
    options = ["--format", "json", "--group", GROUP]
    options += ["--now", 1795237397237] if name == "expire" else []
    expected = json.loads(coterie_ok(name, log, *options).stdout)
    with watching(log, "--keep", "36500d") as watch:
        rows = json.loads(watch.get(f"/api/{name}?group={GROUP}")[1])
        assert sorted(map(json.dumps, rows)) == sorted(map(json.dumps, expected))


def test_unknown_paths_and_groups_are_refused_and_other_hosts_too():
    with watching(golden_data.log("transactions")) as watch:
        assert watch.get("/nothing")[0] == 404
        assert watch.get("/groups/nobody")[0] == 404
        assert watch.get("/api/audit?group=nobody")[0] == 404
        watch.url = watch.url.replace("127.0.0.1", "localhost")
        assert watch.get("/metrics")[0] == 200


def test_totals_and_rows_after_kill_9_are_those_of_a_run_that_was_not_interrupted(tmp_path):
    log = GrowingLog(tmp_path / "log")
    log.put(commits(3).left)
    with watching(log.home, "--data", tmp_path / "data") as watch:
        log.put(commits(6).left)
        watch.look_again()
        watch.end(signal.SIGKILL)
    log.put(commits(9).left)
    with watching(log.home, "--data", tmp_path / "data") as watch, watching(log.home) as other:
        assert watch.samples() == other.samples()
        assert watch.end(signal.SIGTERM)[0] == 0


def test_a_damaged_snapshot_is_named_and_counted_anew(tmp_path):
    log, data = GrowingLog(tmp_path / "log"), tmp_path / "data"
    log.put(commits(3).left)
    with watching(log.home, "--data", data) as watch:
        samples = watch.samples()
        assert watch.end(signal.SIGTERM)[0] == 0
    file = data / "watch-0.snapshot"
    file.write_bytes(file.read_bytes()[:-3])
    with watching(log.home, "--data", data) as watch:
        assert watch.samples() == samples
        _, error = watch.end(signal.SIGTERM)
    assert error == f"coterie: {file}: is damaged; partition 0 is counted anew from its log\n"


def test_a_second_watcher_with_the_same_data_is_refused(tmp_path):
    log, data = GrowingLog(tmp_path / "log"), tmp_path / "data"
    log.put(commits(3).left)
    with watching(log.home, "--data", data):
        says = "another coterie watch uses it"
        fails("watch", log.home, "--data", data, "--listen", "127.0.0.1:0", says=says)


def test_basic_authentication_over_tls_lets_only_the_password_in(tmp_path):
    authority, ca = trustme.CA(), tmp_path / "ca"
    authority.cert_pem.write_to_path(ca)
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_pem.write_to_path(tmp_path / "key")
    for pem in certificate.cert_chain_pems:
        pem.write_to_path(tmp_path / "cert", append=True)
    login = tmp_path / "login"
    login.write_text("me:secret\n", encoding="utf-8")
    login.chmod(0o600)
    tls = ["--tls-cert", tmp_path / "cert", "--tls-key", tmp_path / "key", "--basic-auth", login]
    with watching(golden_data.log("transactions"), *tls) as watch:
        assert watch.url.startswith("https://")
        assert watch.get("/metrics", ca=ca)[0] == 401
        assert watch.get("/metrics", "me:wrong", ca)[0] == 401
        assert watch.get("/metrics", "me:secret", ca)[0] == 200
    login.chmod(0o644)
    fails(
        "watch",
        ".",
        *tls,
        status=2,
        says=(
            "others may read it",
            "chmod 600",
        ),
    )
    login.chmod(0o600)
    login.write_text("secret\n", encoding="utf-8")
    fails("watch", ".", *tls, status=2, says=("USER:PASSWORD",))
    fails("watch", ".", *tls[-2:], status=2, says=("--basic-auth needs --tls-cert",))


@pytest.mark.parametrize(
    ("args", "status", "says"),
    [
        ([], 2, "Missing argument 'LOG...'"),
        ([".", "--listen", OTHER], 2, "is not a loopback address"),
        ([".", "--listen", "nowhere"], 2, "an address is"),
        ([".", "--tls-cert", "f"], 2, "--tls-cert and --tls-key go together"),
        ([".", "--tls-key", "f"], 2, "--tls-cert and --tls-key go together"),
        ([".", "--interval", "0"], 2, "--interval"),
        ([".", "--interval", "nan"], 2, "--interval nan is no number of seconds"),
        ([".", "--listen", "ssl://127.0.0.1:0"], 2, "--tls-cert and --tls-key give TLS"),
        ([".", "--data", ""], 2, "an empty text is no folder"),
        (["nowhere"], 1, "nowhere: no such file or folder"),
        (["/", "--data", "d"], 1, "no __consumer_offsets-N folder in it"),
    ],
)
def test_wrong_use_is_one_line(args, status, says, tmp_path):
    fails("watch", *args, status=status, says=says)


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "data").write_text("", encoding="utf-8")
    folder = shutil.copytree(golden_data.log("transactions"), tmp_path / "log")
    says = "--data", "is a file, or in one; name another folder"
    fails("watch", folder, "--data", tmp_path / "data", says=says)


def test_a_login_of_root_may_be_readable_by_its_group(tmp_path, monkeypatch):
    """Container platforms mount secrets in that way, for a process of another user."""
    login = tmp_path / "login"
    login.write_text("me:secret\n", encoding="utf-8")
    login.chmod(0o640)
    if login.stat().st_uid != 0:
        pytest.skip("only root can make a file of root")
    with pytest.raises(ArgumentError, match="others may read it"):
        login_of(login)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert login_of(login) == "me:secret"
    login.chmod(0o644)
    with pytest.raises(ArgumentError, match="others may read it"):
        login_of(login)


@pytest.mark.parametrize(
    ("line", "is_login"),
    [
        ("me:secret\n", True), ("me:secret", True), ("me:a:b", True),  # a password may have ":"
        ("", False), ("\n", False), ("me", False), ("me:", False), (":secret", False),
        ("me:secret\nyou:too\n", False),
    ],
)  # fmt: skip
def test_a_login_is_one_line_of_a_user_and_a_password(tmp_path, line, is_login):
    file = tmp_path / "login"
    file.write_text(line)
    file.chmod(0o600)
    if is_login:
        assert login_of(file) == line.rstrip("\n")
    else:
        with pytest.raises(ArgumentError, match="it must have one line, USER:PASSWORD"):
            login_of(file)


def test_other_machines_are_let_in_by_a_login_or_as_insecure_alone():
    for text, with_login, insecure, is_open in (
        ("127.0.0.1:9308", False, False, True), ("[::1]:0", False, False, True),
        ("0.0.0.0:9308", False, False, False), ("0.0.0.0:9308", True, False, True),
        ("0.0.0.0:9308", False, True, True), ("10.0.0.1:9308", False, False, False),
    ):  # fmt: skip
        allowed = {"with_login": with_login, "insecure": insecure}
        if is_open:
            place = place_of_listen(text, **allowed)
            assert place.address == text, text
        else:
            with pytest.raises(ArgumentError, match="is not a loopback address"):
                place_of_listen(text, **allowed)
