"""What Dask's array expressions lack, with its setting ``array.query-planning``: tests that fail by it are skipped."""

import dask.array as da

EXPRESSIONS = "/dask/array/_array_expr/"


def is_lack_of_dask(failure):
    """Whether Dask says that its array expressions lack a function or a method."""
    error = failure.value
    if isinstance(error, NotImplementedError):
        is_in_dask = EXPRESSIONS in str(failure.traceback[-1].path)
        return is_in_dask or "not implemented for dask-expr" in str(error) or "Dask's array expressions" in str(error)
    if isinstance(error, TypeError):  # every random choice fails so
        return any(
            EXPRESSIONS in str(each.path) and each.name == "_choice_validate_params" for each in failure.traceback
        )
    return isinstance(error, AttributeError) and (isinstance(error.obj, da.Array) or is_stub(error.obj))


def is_stub(function):
    """Whether this stands in `dask.array` for what array expressions lack."""
    return getattr(function, "__qualname__", "") == "raise_not_implemented_error.<locals>.inner_func"
