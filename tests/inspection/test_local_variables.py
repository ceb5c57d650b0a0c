import sys

from jupyter_gpudask.inspection.user_code import local_variables


def test_arguments_and_variables_are_read_by_name():
    def function(argument, *others):  # noqa: ARG001
        number = argument + 1
        return local_variables(sys._getframe()), number

    assert function(1, 2) == ({"argument": 1, "others": (2,), "number": 2}, 2)


def test_a_variable_of_a_comprehension_that_a_closure_names_too_does_not_end_the_process(run_python):
    printed = run_python(
        "import sys\n"
        "from jupyter_gpudask.inspection.user_code import local_variables\n"
        "def function(*args):\n"
        "    seen = [local_variables(sys._getframe()) for a in args]\n"
        "    a = 3\n"
        "    return seen, lambda: a\n"
        "print(function(1, 2)[0][0]['args'] if sys.version_info >= (3, 12) else (1, 2))"  # a frame of its own before
    )
    assert printed.strip() == "(1, 2)"
