"""The arguments of `%gpudask`: parsed, described and documented as `ClusterSpec` declares them."""

import pytest
from IPython.core.error import UsageError

from jupyter_gpudask.magics.arguments import parse_cell, parse_line
from jupyter_gpudask.magics.declarations import CELL_OPTIONS, COMMANDS, cell_help, commands_help, start_help
from jupyter_gpudask.protocol import ClusterSpec
from jupyter_gpudask.protocol.spec import flag_of, start_options

OPTIONS = start_options()


def test_every_field_of_a_spec_is_an_option_once():
    assert [option.field for option in OPTIONS.values()] == list(ClusterSpec.model_fields)
    assert [flag_of(field) for field in ClusterSpec.model_fields] == list(OPTIONS)


@pytest.mark.parametrize("flag", CELL_OPTIONS)
def test_every_option_of_a_cell_is_parsed_and_described(flag):
    option = CELL_OPTIONS[flag]
    name = flag.lstrip("-")
    without, values = getattr(parse_cell(""), name), option.choices or ("x",)
    assert without == {"--move": ()}.get(flag, (option.default or None) if option.metavar else False)
    if option.metavar:
        assert [getattr(parse_cell(f"{flag} {value}"), name) for value in values] == [
            ("x",) if flag == "--move" else value for value in values
        ]
    else:
        assert getattr(parse_cell(flag), name) is True
    assert f"{flag} {option.metavar}".strip() in cell_help()
    assert all(value in option.help for value in option.choices)


def test_every_command_is_in_the_help():
    heads = [line.split()[0] for line in commands_help().splitlines() if not line.startswith(" ")]
    assert heads == list(COMMANDS)


@pytest.mark.parametrize("flag", OPTIONS)
def test_every_option_is_parsed_into_its_field_and_described(flag):
    option = OPTIONS[flag]
    parsed = parse_line(f"start {flag} 7").options
    assert parsed[option.field] == (["7"] if option.is_repeatable else "7")
    assert f"{flag} " in start_help()
    assert option.help.split()[0] in start_help()


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("start", {}),
        ("start --cpu", {"engine": "cpu"}),
        ("start --cpu 4", {"engine": "cpu", "workers": "4"}),
        ("start --profile slurm --workers 8", {"profile": "slurm", "workers": "8"}),
        ("start --engine cuda --cpu", {"engine": "cpu"}),
        ("restart --dashboard", {"dashboard": "yes"}),
        ("restart --dashboard no --gpus=0,3", {"dashboard": "no", "gpus": "0,3"}),
        ("start --wait --gpus 2", {"wait": "yes", "gpus": "2"}),
        ("connect tls://a:1 --security f", {"address": "tls://a:1", "security": "f"}),
        ("connect --scheduler-file=f", {"scheduler_file": "f"}),
        ("start --environment A=b --environment C='d e'", {"environment": ["A=b", "C=d e"]}),
    ],
)
def test_only_the_options_that_are_typed_are_given(line, options):
    assert parse_line(line).options == options


@pytest.mark.parametrize(
    ("parse", "line", "sentence"),
    [
        (parse_line, "start --nothing=1", "Unrecognized arguments: --nothing=1. Type %gpudask? for help."),
        (parse_line, "start --gpus", "Argument --gpus: expected one argument. Type %gpudask? for help."),
        (parse_line, "start '", "The line cannot be parsed: No closing quotation."),
        (parse_line, "scale", "The command scale takes one number, of workers. Type: %gpudask scale 2"),
        (parse_line, "scale -3", "%gpudask scale -3: give a number of workers from 1 to 256."),
        (parse_line, "scale 257", "%gpudask scale 257: give a number of workers from 1 to 256."),
        (parse_line, "scale 2 3", "The command scale takes one number, of workers. Type: %gpudask scale 2"),
        (parse_line, "adapt", "Give the smallest and the largest number of workers. Type: %gpudask adapt 1 4"),
        (parse_line, "adapt 2", "Give the smallest and the largest number of workers. Type: %gpudask adapt 1 4"),
        (parse_line, "adapt 0 4", "%gpudask adapt 0: give a number of workers from 1 to 256."),
        (
            parse_line,
            "adapt 4 1",
            "The range from 4 to 1 is reversed. Type: %gpudask adapt 1 4",
        ),
        (parse_line, "stop 3", '%gpudask stop takes no number; remove "3".'),
        (parse_line, "stop now", '%gpudask stop takes no argument "now". Type %gpudask? for help.'),
        (parse_line, "scale two", '%gpudask scale takes no argument "two". Type %gpudask? for help.'),
        (parse_line, "scale 1.5", '%gpudask scale takes no argument "1.5". Type %gpudask? for help.'),
        (
            parse_line,
            "start cpu",
            '%gpudask start takes no argument "cpu". Did you mean --cpu? Type %gpudask? for help.',
        ),
        (parse_line, "stop # at last", 'IPython passes the whole line to %gpudask, comments too. Remove: "# at last"'),
        (parse_line, "stop # don't", 'IPython passes the whole line to %gpudask, comments too. Remove: "# don\'t"'),
        (parse_line, "start --gpus 2 #two", 'IPython passes the whole line to %gpudask, comments too. Remove: "#two"'),
        (
            parse_line,
            "connect tcp://a:1 --scheduler-file f",
            "Give an address or --scheduler-file, not both. Type: %gpudask connect tcp://HOST:8786",
        ),
        (parse_line, "connect tcp://a:1 --gpus 2", "Unrecognized arguments: --gpus 2."),
        (parse_line, "disconnect 3", '%gpudask disconnect takes no number; remove "3".'),
        (
            parse_line,
            "stop --pool 1",
            "%gpudask stop does not take --pool. Options like this belong to %gpudask start.",
        ),
        (parse_cell, "--strict # exact", 'IPython passes the whole line to %%gpudask, comments too. Remove: "# exact"'),
        (parse_cell, "--array torch", "Argument --array: invalid choice: 'torch'"),
        (parse_cell, "--compare --report x", "--compare and --report are mutually exclusive. Leave one of them out."),
        (parse_cell, "--profile --compare", "--compare and --profile are mutually exclusive. Leave one of them out."),
    ],
)
def test_arguments_that_are_wrong_are_one_sentence(parse, line, sentence):
    with pytest.raises(UsageError) as raised:
        parse(line)
    assert str(raised.value).startswith(sentence)


@pytest.mark.parametrize(
    ("parse", "line", "meant"),
    [
        (parse_line, "strat", "start"),
        (parse_line, "stat", "status"),
        (parse_line, "start --gpu 2", "--gpus"),
        (parse_line, "start --gpus=2 --pol=3", "--pool"),
        (parse_cell, "--array cuppy", "cupy"),
        (parse_cell, "--resluts", "--results"),
    ],
)
def test_a_word_that_is_nearly_known_is_suggested(parse, line, meant):
    with pytest.raises(UsageError, match=f"Did you mean {meant}\\?") as raised:
        parse(line)
    assert "choose from" not in str(raised.value)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("logs --lines 0", "--lines 0: give a number from 1 to 10,000."),
        ("logs --lines 10001", "--lines 10001: give a number"),
        ("status --lines 3", "%gpudask status does not take --lines. Type: %gpudask logs --lines 3"),
        ("logs --lines x", "lines"),
    ],
)
def test_numbers_of_lines_are_checked(line, sentence):
    assert (parse_line("logs").lines, parse_line("logs --lines 10000").lines) == (20, 10_000)
    with pytest.raises(UsageError, match=sentence):
        parse_line(line)


@pytest.mark.parametrize("line", ["help", "helpp", "--help"])
def test_who_asks_for_help_gets_no_other_command(line):
    with pytest.raises(UsageError, match=r"Type %gpudask\? for help\.") as raised:
        parse_line(line)
    assert "Did you mean" not in str(raised.value)


@pytest.mark.parametrize("line", ["sing", "start --lines x", "start --nothing 1"])
def test_nothing_is_suggested_for_other_words(line):
    with pytest.raises(UsageError) as raised:
        parse_line(line)
    assert "Did you mean" not in str(raised.value)
