"""The least value of each option that takes a number, and what an option for a file refuses."""

import click
import pytest

from coterie.cli import COMMANDS, coterie
from coterie.cli.watch import login_of
from coterie.errors import ArgumentError

# Less would ask for nothing, or for all: one member takes nothing over from itself, a client that
# left once does not flap, and one commit is no run.
LEAST = {
    "fetch": {"--partition": 0, "--sample-end-offsets": 1},
    "explain": {"--flap-count": 2},
    "growth": {"--top": 0},
    "audit": {
        "--rewind-by": 1, "--no-progress": 2, "--metadata-bytes": 0, "--takeovers": 2,
        "--skip-by": 1, "--skip-rate": 1, "--flap-count": 2, "--top": 1,
    },
    "watch": {"--sample-end-offsets": 1, "--interval": 0.05},
    "records": {"--partition": 0, "--offset": 0},
    "rehearse": {"--moments": 0, "--plays": 1},
}  # fmt: skip
# What is read or written as one file; logs and outputs may be folders.
FILES = {"--command-config", "--tls-cert", "--tls-key", "--tls-client-ca", "--basic-auth",
         "--config", "--sasl-users", "--trace"}  # fmt: skip
SEVERAL = {"--set", "--status", "--design", "--scale-session", "--static", "--advertise"}
FLAGS = {"--overwrite", "--include-deleted", "--follow", "--insecure", "--all-groups"}


def options_of(name):
    command = coterie.get_command(click.Context(coterie), name)
    context = click.Context(command, info_name=name)
    return {option: each for each in command.params for option in each.opts}, context


@pytest.mark.parametrize("name", coterie.list_commands(None))
def test_an_option_takes_its_least_value_and_refuses_less(name):
    options, context = options_of(name)
    least = {
        option: each.type.min
        for option, each in options.items()
        if isinstance(each.type, click.IntRange | click.FloatRange)
    }
    assert least == LEAST.get(name, {})
    for option, value in least.items():
        is_repeatable = options[option].multiple
        taken = options[option].type_cast_value(context, (value,) if is_repeatable else value)
        assert taken in (value, (value,))
        with pytest.raises(click.BadParameter, match="is not in the range"):
            options[option].type.convert(value - 1, options[option], context)


@pytest.mark.parametrize("name", coterie.list_commands(None))
def test_an_option_for_a_file_refuses_a_folder(name, tmp_path):
    options, context = options_of(name)
    for option, each in options.items():
        if isinstance(each.type, click.Path) and option in FILES:
            with pytest.raises(click.BadParameter, match="is a directory"):
                each.type.convert(str(tmp_path), each, context)


def every_option():
    """Command line and option, of all commands."""
    found, left = [], [((name,), coterie.get_command(None, name)) for name in COMMANDS]
    for path, command in left:
        if isinstance(command, click.Group):
            left.extend(((*path, name), inner) for name, inner in command.commands.items())
        found += [(path, one) for one in command.params if isinstance(one, click.Option)]
    return found


def test_the_help_names_the_default_of_every_option_that_has_one():
    for path, option in every_option():
        default = option.to_info_dict()["default"]
        if not option.is_flag and not option.multiple and default is not None:
            with click.Context(coterie.get_command(None, path[0])) as context:
                (_, text) = option.get_help_record(context)
            assert "[default: " in text, (path, option.opts)


def test_an_option_is_repeatable_if_its_help_says_so_or_it_names_one_of_several():
    for path, option in every_option():
        says_so = "repeatable" in (option.help or "")
        assert option.multiple == (says_so or option.opts[0] in SEVERAL), (path, option.opts)


def test_an_option_that_takes_no_value_is_a_flag():
    for path, option in every_option():
        assert option.is_flag or not FLAGS.intersection(option.opts), (path, option.opts)


def test_a_watch_looks_at_least_once_a_day():
    options, context = options_of("watch")
    interval = options["--interval"]
    assert interval.type.convert("86400", interval, context) == 86_400
    with pytest.raises(click.BadParameter, match="is not in the range"):
        interval.type.convert("86400.5", interval, context)


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("spark.a=b", ("spark.a", "b")),
        ("spark.a = b ", ("spark.a", "b")),
        (" spark.a=", ("spark.a", "")),
        ("spark.a=-Db=c", ("spark.a", "-Db=c")),
    ],
)
def test_a_setting_of_spark_is_split_at_the_first_sign_and_has_no_blanks_around(text, pair):
    options, context = options_of("growth")
    assert options["--conf"].type.convert(text, options["--conf"], context) == pair


@pytest.mark.parametrize(("size", "fits"), [(4096, True), (4097, False)])
def test_the_line_of_a_login_has_4096_bytes_at_most(tmp_path, size, fits):
    file = tmp_path / "login"
    file.touch(0o600)
    file.write_text(f"me:{'x' * (size - 3)}")
    if fits:
        assert len(login_of(file)) == size
    else:
        with pytest.raises(ArgumentError, match="--basic-auth"):
            login_of(file)
