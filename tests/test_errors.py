"""The catalog of errors: complete, used by each raise site, and the same in every process."""

import ast
import pickle
from pathlib import Path
from string import Formatter

from jupyter_gpudask import errors
from jupyter_gpudask.errors import ClusterLostError, ClusterStartError, GpuReservedError, NotOnGpuError
from jupyter_gpudask.protocol.messages import Failed, parse_event
from jupyter_gpudask.protocol.spec import ClusterSpec, start_options

PACKAGE = Path(errors.__file__).parent
TREES = {path: ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")}
ENTRIES = {code: entry for entries in errors.catalog().values() for code, entry in entries.items()}


def fields(*texts):
    return {name.partition(" ")[0] for text in texts for _, name, *_ in Formatter().parse(text) if name}


def values(entry):
    return {name for name in fields(entry.reason, entry.fix) if not name.startswith("--")}


def raise_sites():
    """The place of each error in the code, with its class, its codes and the names of its values."""
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            name = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
            name = "ArgumentsError" if name == "usage_error" else name
            has_own_arguments = "__init__" in vars(getattr(errors, name, errors))
            if name in errors.catalog() and not has_own_arguments and all(each.arg for each in node.keywords):
                codes = [each.value for argument in node.args for each in ast.walk(argument) if hasattr(each, "value")]
                codes = [code for code in codes if code in ENTRIES] if node.args else list(errors.catalog()[name])
                yield f"{path.name}:{node.lineno}", name, codes, {each.arg for each in node.keywords}


def test_each_raise_site_has_a_code_of_its_class_and_gives_exactly_its_values():
    sites = list(raise_sites())
    assert len(sites) > 100
    for place, name, codes, given in sites:
        wanted = [values(errors.catalog()[name][code]) for code in codes]
        assert all(each <= given for each in wanted), place
        assert not wanted or given - {"log", "reserved_gpus", "field"} <= set.union(*wanted), place


def test_each_error_of_the_catalog_is_raised_once_there():
    codes = [code for entries in errors.catalog().values() for code in entries]
    assert len(set(codes)) == len(codes)
    texts = {each.value for tree in TREES.values() for each in ast.walk(tree) if isinstance(each, ast.Constant)}
    unused = [
        code for entries in errors.catalog().values() if len(entries) > 1 for code in entries if code not in texts
    ]
    assert unused == []


def test_an_error_is_about_options_and_fields_of_a_start_and_offers_what_the_panel_knows():
    for code, entry in ENTRIES.items():
        options = {name for name in fields(entry.reason, entry.fix) if name.startswith("--")}
        assert options <= start_options().keys(), code
        assert entry.field in ClusterSpec.model_fields or entry.field in ("", "{field}"), code
        assert set(entry.actions) <= {"wait", "share", "use-cpu", "start-on-free"}, code


def test_every_exception_is_in_the_catalog_or_is_a_base_class():
    classes = [
        value for value in vars(errors).values() if isinstance(value, type) and value.__module__ == errors.__name__
    ]
    bases = {base for each in classes for base in each.__bases__} - {errors.SpecError}
    raised = {each.__name__ for each in classes if issubclass(each, errors.GpuDaskError) and each not in bases}
    assert raised == errors.catalog().keys()


def test_an_error_is_the_same_in_another_process():
    held = GpuReservedError("others-wait", waiting="user bob", reserved_gpus=["GPU-0"])
    lost = ClusterLostError("process-silent", limit=10.0, log="the end")
    for error in (held, lost, NotOnGpuError("f", "sum", "no such dtype.", 3)):
        copy = pickle.loads(pickle.dumps(error))  # noqa: S301
        assert (type(copy), vars(copy), str(copy)) == (type(error), vars(error), str(error))
    for error in (held, lost):
        read = parse_event(Failed.from_error(error).model_dump_json()).to_error()
        assert (type(read), vars(read), str(read)) == (type(error), vars(error), str(error))
    assert str(lost) == "The cluster's main process did not respond within 10 s. Type: %gpudask restart\nthe end"


def test_an_error_of_another_version_keeps_its_text(monkeypatch):
    monkeypatch.setenv("JUPYTER_GPUDASK_DOCUMENTATION", "https://docs.example.org")
    line = (
        '{"type": "failed", "kind": "ClusterLostError", "code": "new", "reason": "The moon is full.", "fix": "Wait."}'
    )
    error = parse_event(line).to_error()
    assert (type(error), str(error), error.field) == (ClusterLostError, "The moon is full. Wait.", "")
    assert error.address == "https://docs.example.org/errors.html#clusterlosterror"
    older = parse_event('{"type": "failed", "kind": "MoonError", "reason": "It is full."}').to_error()
    assert (type(older), str(older)) == (ClusterStartError, "It is full.")
    assert older.address == "https://docs.example.org/errors.html#clusterstarterror"
