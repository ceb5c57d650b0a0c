"""What `jupyter_gpudask.gpu` refuses before anything is started."""

import functools

import pytest

from jupyter_gpudask import gpu
from jupyter_gpudask.errors import SpecError


def test_another_value_is_refused_with_those_that_are_allowed():
    for name, value, allowed in (
        ("results", "cpu", "'host' or 'gpu'"),
        ("fallback", "Strict", "'host' or 'strict' or 'error'"),
        ("dataframe", None, "'cudf' or 'pandas'"),
    ):
        with pytest.raises(SpecError) as refused:
            gpu(**{name: value})
        assert str(refused.value) == f"gpu({name}=...) {value!r} is not allowed: give {allowed}."


def generator():
    yield 1


async def asynchronous_generator():
    yield 1


class Job:
    pass


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (generator, "cannot decorate generator: the body of a generator runs after the call."),
        (asynchronous_generator, "cannot decorate asynchronous_generator"),
        (functools.partial(generator), "cannot decorate functools.partial"),
        (Job, "cannot decorate the class Job. Decorate its methods."),
        (5, "decorates functions, and 5 is none"),
    ],
)
@pytest.mark.parametrize("decorator", [gpu, gpu()])
def test_what_would_run_outside_is_not_decorated(decorator, function, sentence):
    with pytest.raises(TypeError, match=sentence):
        decorator(function)
