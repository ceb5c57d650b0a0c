"""The arguments of `%gpudask`: parsed, described and documented as `ClusterSpec` declares them."""

import pytest
from IPython.core.error import UsageError

from jupyter_gpudask.magics.arguments import CELL_OPTIONS, cell_help, parse_cell
from jupyter_gpudask.magics.commands import COMMANDS, commands_help, parse_line, start_help
from jupyter_gpudask.protocol.spec import ClusterSpec, flag_of, start_options

OPTIONS = start_options()


def test_every_field_of_a_spec_is_an_option_which_is_parsed_and_described():
    assert [option.field for option in OPTIONS.values()] == list(ClusterSpec.model_fields)
    assert [flag_of(field) for field in ClusterSpec.model_fields] == list(OPTIONS)
    for flag, option in OPTIONS.items():
        assert parse_line(f"start {flag} 7")[1][option.field] == (["7"] if option.is_repeatable else "7")
        assert f"{flag} " in start_help()
        assert option.help.split()[0] in start_help()


def test_every_option_of_a_cell_is_parsed_and_described():
    for flag, option in CELL_OPTIONS.items():
        name = flag.lstrip("-")
        without, values = getattr(parse_cell(""), name), option.choices or ("x",)
        assert without == {"--move": ()}.get(flag, (option.default or None) if option.metavar else False)
        if option.metavar:
            parsed = [getattr(parse_cell(f"{flag} {value}"), name) for value in values]
            assert parsed == [("x",) if flag == "--move" else value for value in values]
        else:
            assert getattr(parse_cell(flag), name) is True
        assert f"{flag} {option.metavar}".strip() in cell_help()
    heads = [line.split()[0] for line in commands_help().splitlines() if not line.startswith(" ")]
    assert heads == list(COMMANDS)


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("start", {}),
        ("start --cpu", {"engine": "cpu"}),
        ("start --cpu 4", {"engine": "cpu", "workers": "4"}),
        ("start --preset slurm --workers 8", {"preset": "slurm", "workers": "8"}),
        ("start --engine cuda --cpu", {"engine": "cpu"}),
        ("restart --dashboard", {"dashboard": "yes"}),
        ("restart --dashboard no --gpus=0,3", {"dashboard": "no", "gpus": "0,3"}),
        ("start --wait --gpus 2", {"wait": "yes", "gpus": "2"}),
        ("connect tls://a:1 --security f", {"address": "tls://a:1", "security": "f"}),
        ("scale 2", {"workers": 2}),
        ("adapt 1 4", {"minimum": 1, "maximum": 4}),
        ("logs", {}),
        ("logs --lines 10000", {"lines": 10_000}),
        ("held --release x,y", {"release": ("x", "y")}),
        ("connect --scheduler-file=f", {"scheduler_file": "f"}),
        ("start --environment A=b --environment C='d e'", {"environment": ["A=b", "C=d e"]}),
    ],
)
def test_only_the_options_that_are_typed_are_given(line, options):
    assert parse_line(line) == (line.split()[0], options)


WRONG_LINES = {
    "start --nothing=1": "Unrecognized arguments: --nothing=1. Type %gpudask? for help.",
    "start --gpus": "Argument --gpus: expected one argument. Type %gpudask? for help.",
    "start '": "The line cannot be parsed: No closing quotation.",
    **dict.fromkeys(
        ["scale", "scale -3", "scale 257", "scale 2 3"], "%gpudask scale takes N, numbers of workers from 1 to 256."
    ),
    "scale 1.5": '%gpudask scale takes no argument "1.5". Type %gpudask? for help.',
    **dict.fromkeys(
        ["adapt 2", "adapt 0 4", "adapt 4 1"], "%gpudask adapt takes MIN MAX, numbers of workers from 1 to 256."
    ),
    "stop 3": '%gpudask stop takes no argument "3". Type %gpudask? for help.',
    "stop now": '%gpudask stop takes no argument "now". Type %gpudask? for help.',
    "start cpu": '%gpudask start takes no argument "cpu". Did you mean --cpu? Type %gpudask? for help.',
    "stop # at last": 'IPython passes the whole line to %gpudask, comments too. Remove: "# at last"',
    "stop # don't": 'IPython passes the whole line to %gpudask, comments too. Remove: "# don\'t"',
    "connect tcp://a:1 --scheduler-file f": "Give an address or --scheduler-file, not both. Type: %gpudask connect ",
    "connect tcp://a:1 --gpus 2": "%gpudask connect does not take --gpus. It belongs to %gpudask start.",
    "connect tcp://a:1 b": '%gpudask connect takes no argument "tcp://a:1".',
    "stop --pool 1": "%gpudask stop does not take --pool. It belongs to %gpudask start.",
    "logs --lines 0": "--lines 0: give a number from 1 to 10,000.",
    "logs --lines 10001": "--lines 10001: give a number",
    "status --lines 3": "%gpudask status does not take --lines. It belongs to %gpudask logs.",
    "logs --lines x": "--lines x: give a number from 1 to 10,000.",
    "start --gpus 0, 1": 'There is a space after the comma in "0, 1". Leave it out: 0,1',
}
WRONG_CELLS = {
    "--strict # exact": 'IPython passes the whole line to %%gpudask, comments too. Remove: "# exact"',
    "--array torch": "Argument --array: invalid choice: 'torch'",
    "--compare --report x": "--compare and --report are mutually exclusive. Leave one of them out.",
    "--profile --compare": "--compare and --profile are mutually exclusive. Leave one of them out.",
}


def error_of(parse, line):
    with pytest.raises(UsageError) as raised:
        parse(line)
    return str(raised.value)


def test_arguments_that_are_wrong_are_one_sentence():
    for parse, wrong in ((parse_line, WRONG_LINES), (parse_cell, WRONG_CELLS)):
        for line, sentence in wrong.items():
            assert error_of(parse, line).startswith(sentence)


def test_a_word_that_is_nearly_known_is_suggested_and_nothing_for_help_or_other_words():
    for parse, line, meant in (
        (parse_line, "strat", "start"),
        (parse_line, "START", "start"),
        (parse_line, "stat", "status"),
        (parse_line, "start --gpu 2", "--gpus"),
        (parse_line, "start --gpus=2 --pol=3", "--pool"),
        (parse_cell, "--array cuppy", "cupy"),
        (parse_cell, "--resluts", "--results"),
    ):
        said = error_of(parse, line)
        assert f"Did you mean {meant}?" in said
        assert "choose from" not in said
    assert [parse_line(line)[0] for line in ("help", "--help", "-h", "start --help")] == ["help"] * 4
    for line in ("helpp", "sing", "start --nothing 1"):
        said = error_of(parse_line, line)
        assert "Type %gpudask? for help." in said
        assert "Did you mean" not in said
