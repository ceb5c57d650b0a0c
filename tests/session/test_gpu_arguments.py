"""What `jupyter_gpudask.gpu` refuses before anything is started."""

import functools

import pytest

from jupyter_gpudask import gpu
from jupyter_gpudask.errors import SpecError
from jupyter_gpudask.session.gpu import GpuSwitch


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"results": "cpu"}, "gpu(results=...) 'cpu' is not allowed: give 'host' or 'gpu'."),
        ({"fallback": "Strict"}, "gpu(fallback=...) 'Strict' is not allowed: give 'host' or 'strict' or 'error'."),
        ({"array": "cup"}, "gpu(array=...) 'cup' is not allowed: give 'cupy' or 'numpy'."),
        ({"dataframe": None}, "gpu(dataframe=...) None is not allowed: give 'cudf' or 'pandas'."),
    ],
)
def test_another_value_is_refused_with_those_that_are_allowed(options, sentence):
    with pytest.raises(SpecError) as refused:
        gpu(**options)
    assert str(refused.value) == sentence


def generator():
    yield 1


async def asynchronous_generator():
    yield 1


class Job:
    pass


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (
            generator,
            "cannot decorate generator: the body of a generator runs after the call.",
        ),
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


def test_the_parentheses_may_be_left_out():
    def compute():
        """Compute."""

    assert gpu(compute).__doc__ == "Compute."
    assert isinstance(gpu(), GpuSwitch)
