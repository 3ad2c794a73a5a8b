"""The dashboard and the alert rules: every expression names metrics that a watcher serves."""

import json
import re
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from coterie.base import prometheus
from coterie.live import exposition
from coterie.live.watcher import Health
from support.commandline import coterie_ok
from support.golden_data import log
from support.patience import HANG_S
from support.watch.watch_process import watching

EXPR = re.compile(r"^ +expr: (?:>-\n((?: {10}.*\n)+)|(.*)\n)", re.M)
METRIC = re.compile(r"\b(?:kafka|coterie)_\w+")


def dashboard():
    return json.loads(coterie_ok("watch", "--print", "dashboard").stdout)


def alert_expressions():
    text = coterie_ok("watch", "--print", "alerts").stdout
    return [" ".join((block or line).split()) for block, line in EXPR.findall(text)]


def panel_expressions():
    targets = [target for panel in dashboard()["panels"] for target in panel["targets"]]
    return [target["expr"].replace("$group", ".*") for target in targets]


def served():
    """The names of all metrics that /metrics may have."""
    own = "".join(exposition.own_families(Health(1, 0, 0, 0, 1, 0, {}), 1))
    return {
        *(family.name for family in prometheus.FAMILIES if family.of in exposition.NAMES),
        *(family.name for family in exposition.FAMILIES),
        *re.findall(r"^# TYPE (\w+)", own, re.M),
    }


@pytest.mark.parametrize("expressions", [alert_expressions, panel_expressions])
def test_every_expression_names_metrics_that_are_served(expressions):
    found = expressions()
    assert len(found) >= 9
    for expression in found:
        names = METRIC.findall(expression)
        assert names, expression
        assert set(names) <= served()


def test_the_variable_of_the_dashboard_names_a_metric_that_is_served():
    queries = [one["query"] for one in dashboard()["templating"]["list"]]
    names = METRIC.findall(json.dumps(queries))
    assert names
    assert set(names) <= served()


def test_prometheus_accepts_the_alert_rules(tmp_path):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    rules = tmp_path / "rules.yml"
    rules.write_text(coterie_ok("watch", "--print", "alerts").stdout, encoding="utf-8")
    subprocess.run([promtool, "check", "rules", rules], check=True, capture_output=True)


CONFIG = """\
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs: [{{job_name: watch, static_configs: [{{targets: ["{target}"]}}]}}]
"""


def test_a_prometheus_that_scraped_a_watcher_answers_every_expression(tmp_path):
    server = shutil.which("prometheus")
    if server is None:
        pytest.skip("prometheus is not installed")
    with watching(log("basic")) as watch:
        config = tmp_path / "prometheus.yml"
        target = watch.url.removeprefix("http://")
        config.write_text(CONFIG.format(target=target), encoding="utf-8")
        options = [f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}"]
        process = subprocess.Popen(
            [server, *options, "--web.listen-address=127.0.0.1:0", "--log.format=json"],
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            url = next(
                line["address"]
                for line in map(json.loads, process.stderr)
                if line.get("msg") == "Listening on"
            )

            def ask(expression):
                query = urllib.parse.urlencode({"query": expression})
                page = f"http://{url}/api/v1/query?{query}"
                try:
                    with urllib.request.urlopen(page, None, HANG_S) as answer:
                        return json.load(answer)
                except urllib.error.HTTPError as error:
                    error.close()
                    if error.code != 503:  # it starts
                        raise
                    return {"data": {"result": []}}

            while not ask("coterie_watch_steps_total")["data"]["result"]:
                pass
            for expression in [*alert_expressions(), *panel_expressions()]:
                assert ask(expression)["status"] == "success", expression
            for name in ("kafka_consumergroup_members", "coterie_consumergroup_findings"):
                assert ask(name)["data"]["result"]
        finally:
            process.kill()
            process.communicate()


def test_the_page_names_every_metric_that_only_a_watcher_has():
    page = (Path(__file__).parents[2] / "docs/watch.md").read_text(encoding="utf-8")
    own = {name for name in served() if name.startswith("coterie_watch_")}
    assert {family.name for family in exposition.FAMILIES} | own <= set(METRIC.findall(page))
