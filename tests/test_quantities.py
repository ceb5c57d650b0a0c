import pytest

from jupyter_gpudask.quantities import format_bytes, parse_amount, parse_gpus, parse_pairs, parse_range, typed_size


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        (None, None),
        ("none", None),
        ("0.5", 0.5),
        (1, 1.0),
        ("1", 1.0),
        (20_000_000_000, 20_000_000_000),
        ("20GB", 20_000_000_000),
        ("20 GiB", 20 * 2**30),
        ("1.5gib", 3 * 2**29),
    ],
)
def test_amounts_of_memory_are_fractions_or_bytes(text, amount):
    parsed = parse_amount(text)
    assert parsed == amount
    assert type(parsed) is type(amount)


@pytest.mark.parametrize("typed", ["20GB", "16GiB", "1TiB", "1500KB", "1500MB", "17179869185"])
def test_sizes_are_written_as_they_are_typed(typed):
    assert typed_size(parse_amount(typed)) == typed


@pytest.mark.parametrize(
    "text", ["", "lots", "-1", -1, 0, "0", "20", 20, "90%", "1e3GB", "20 XB", True, [], float("nan"), float("inf")]
)
def test_what_is_no_amount_is_refused(text):
    with pytest.raises(ValueError, match=r"\w"):
        parse_amount(text)


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("all", "all"),
        (" Free ", "free"),
        ("2", 2),
        (2, 2),
        ("0,3", [0, 3]),
        ("3,", [3]),
        ("[3]", [3]),
        ([1, "GPU-5a0c"], [1, "GPU-5a0c"]),
        ("GPU-5a0c,MIG-77", ["GPU-5a0c", "MIG-77"]),
    ],
)
def test_gpus_are_all_free_a_count_or_a_list(text, gpus):
    assert parse_gpus(text) == gpus


@pytest.mark.parametrize("text", ["", "0", 0, -1, "-1", "1,1", "one", "0,one", True, None, {}, []])
def test_what_names_no_gpus_is_refused(text):
    with pytest.raises(ValueError, match=r"\w"):
        parse_gpus(text)


@pytest.mark.parametrize(
    ("text", "workers"), [("1,4", (1, 4)), ("2, 2", (2, 2)), ([1, 256], (1, 256)), ("none", None), (None, None)]
)
def test_a_range_of_workers_is_two_numbers_or_none(text, workers):
    assert parse_range(text) == workers


@pytest.mark.parametrize(
    "text", ["", "1", "1-4", "4,1", "0,4", "1,257", "1,2,3", "one,two", [1.5, 2], [True, 2], 3, {}]
)
def test_what_is_no_range_of_workers_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        parse_range(text)


def test_pairs_come_as_text_list_or_mapping():
    assert parse_pairs("GPU=1", float) == {"GPU": 1.0}
    assert parse_pairs(["A=x=y", "B="], str) == {"A": "x=y", "B": ""}
    assert parse_pairs({"GPU": 1}, float) == {"GPU": 1}
    with pytest.raises(ValueError, match="pair"):
        parse_pairs("GPU", float)


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (140 * 2**30, "140 GiB"), (2**41, "2.0 TiB")]
)
def test_bytes_are_shown_in_binary_units(count, text):
    assert format_bytes(count) == text
