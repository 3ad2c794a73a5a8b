"""The least value of each option that takes a number, and what an option for a file refuses."""

import click
import pytest

from coterie.cli import coterie

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
}  # fmt: skip
MANY = {"--partition"}
# What is read or written as one file; logs and outputs may be folders.
FILES = {"--command-config", "--tls-cert", "--tls-key", "--tls-client-ca", "--basic-auth",
         "--config", "--sasl-users", "--trace"}  # fmt: skip


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
        taken = options[option].type_cast_value(context, (value,) if option in MANY else value)
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
