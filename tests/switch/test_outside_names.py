"""The variables that code reads from outside, by Python's scopes and in the order of evaluation."""

import ast
import contextlib
import sys
from textwrap import dedent

import dask.array as da
import pytest

from jupyter_gpudask.switch.moving import names_read

# A line of code for each line; everything that is read is listed, whatever it is.
READS = {
    "expression": ("x.sum() + y", [(1, "x"), (1, "y")]),
    "lines in order": ("y\nx\n(x,\n  y)", [(1, "y"), (2, "x"), (3, "x"), (4, "y")]),
    "value before its target": ("x = x + 1\nx", [(1, "x")]),
    "annotated value": ("x: int = x\nx", [(1, "int"), (1, "x")]),
    "walrus": ("(x := x + y)\nx", [(1, "x"), (1, "y")]),
    "annotation alone": ("x: int\nx", [(1, "int"), (2, "x")]),
    "annotation of an item": ("x[0]: int\nx.a: int = 1", [(1, "int"), (1, "x"), (2, "int"), (2, "x")]),
    "augmented": ("x += y\nx", [(1, "x"), (1, "y")]),
    "augmented item": ("x[0] += y", [(1, "x"), (1, "y")]),
    "item": ("x[y] = 1\nx", [(1, "x"), (1, "y"), (2, "x")]),
    "key before value": ("{x: (x := 1), x: y}", [(1, "x"), (1, "y")]),
    "f-string": ("f'{x:{y}}'", [(1, "x"), (1, "y")]),
    "iterable of for": ("for x in x:\n    x\nx", [(1, "x"), (3, "x")]),
    "target of for, afterwards": ("for x in []:\n    y = 1\nelse:\n    x\ny", [(4, "x"), (5, "y")]),
    "for else": ("for i in []:\n    break\nelse:\n    x = 1\nx", [(5, "x")]),
    "while": ("while x:\n    x = y\nx", [(1, "x"), (2, "y"), (3, "x")]),
    "while else": ("while 0:\n    x = 1\nelse:\n    x\n    y = 1\ny", [(4, "x"), (6, "y")]),
    "if": ("if 1:\n    x = 1\n    x\nx", [(4, "x")]),
    "else": ("if 1:\n    x\nelse:\n    x = 1\nx", [(2, "x"), (5, "x")]),
    "conditional expression": ("(x := 1) if y else x\nx", [(1, "x"), (1, "y"), (2, "x")]),
    "and": ("y and (x := 1)\nx", [(1, "y"), (2, "x")]),
    "third comparison": ("1 < 2 < (x := 1)\nx", [(2, "x")]),
    "message of assert": ("assert y, (x := 1)\nx", [(1, "y"), (2, "x")]),
    "try": ("try:\n    x = 1\nexcept E:\n    x\nx", [(3, "E"), (4, "x"), (5, "x")]),
    "handler": ("try:\n    pass\nexcept x:\n    y = 1\ny", [(3, "x"), (5, "y")]),
    "name of an error, afterwards": ("try:\n    pass\nexcept E as x:\n    x\nx", [(3, "E"), (5, "x")]),
    "finally": ("try:\n    x = 1\nfinally:\n    x", [(4, "x")]),
    "except group": ("try:\n    x = 1\nexcept* E as y:\n    y\nx, y", [(3, "E"), (5, "x"), (5, "y")]),
    "with": ("with x as y, y:\n    pass", [(1, "x")]),
    "match": ("match y:\n    case x.a:\n        y = 1\n    case x:\n        pass\nx", [(1, "y"), (2, "x"), (6, "x")]),
    "each case": ("match 1:\n    case 0:\n        x = 1\n    case 1:\n        x = 2\nx", [(6, "x")]),
    "pattern of a class": ("match 1:\n    case x(a=1) if y:\n        pass", [(2, "x"), (2, "y")]),
    "first iterable": ("[x for x in x]", [(1, "x")]),
    "second iterable": ("[a for a in [] for b in x]", [(1, "x")]),
    "second iterable with the name": ("[1 for a in x for x in x]", [(1, "x")]),
    "target that is an item": ("[1 for x[0] in []]", [(1, "x")]),
    "element": ("{a: x for a in y if z}", [(1, "x"), (1, "y"), (1, "z")]),
    "walrus in a comprehension": ("[(x := a) for a in y]\nx", [(1, "y"), (2, "x")]),
    "after a comprehension": ("[x for x in []]\nx", [(2, "x")]),
    "after a lambda": ("lambda x: (x, (y := 1))\nx, y", [(2, "x"), (2, "y")]),
    "after a function": ("def f(x):\n    y = 1\nx, y", [(3, "x"), (3, "y")]),
    "function": ("def f():\n    return x\nx = 1", [(2, "x")]),
    "nested function": ("def f():\n    def g():\n        return x\n    y = 1", [(3, "x")]),
    "default": ("def f(x=x, *, z, y=y): x, y, z", [(1, "x"), (1, "y")]),
    "annotation": ("def f(x: x, *a: y) -> z: x", [(1, "x"), (1, "y"), (1, "z")]),
    "decorator": ("@x\ndef x(): x", [(1, "x")]),
    "global": ("def f():\n    global x\n    x\n    x = 1\n    x\nx", [(3, "x"), (6, "x")]),
    "global in a nested function": (
        "def f():\n    x = 1\n    def g():\n        global x\n        def h(): x\n        return x\n    x",
        [(5, "x"), (6, "x")],
    ),
    "global of a class is not one of its methods": (
        "def f():\n    x = 1\n    class A:\n        global x\n        x\n        def g(self): x",
        [(5, "x")],
    ),
    "class before its assignment": ("class A:\n    x = x\n    x", [(2, "x")]),
    "class in a function before its assignment": ("def f(x):\n    class A:\n        x\n        x = 1", [(3, "x")]),
    "method": ("class A:\n    x = 1\n    def f(self): return x", [(3, "x")]),
    "comprehension in a class": ("class A:\n    x = y = []\n    [x for a in y]", [(3, "x")]),
    "branch in a class": ("class A:\n    if 1:\n        x = 1\n    x", [(4, "x")]),
    "annotation in a class": ("class A:\n    a: x\n    a", [(2, "x"), (3, "a")]),
    "base and keyword": ("@z\nclass A(x, k=y): x", [(1, "z"), (2, "x"), (2, "y")]),
    "after a class": ("class A:\n    x = 1\nx", [(3, "x")]),
    "iterable of async for": ("async for x in x:\n    x\nx", [(1, "x"), (3, "x")]),
    "await": ("async def f():\n    async with x: pass\n    async for y in z: y\nawait f()", [(2, "x"), (3, "z")]),
}

# None of these names is from outside, but for the listed ones.
ASSIGNED = {
    "nothing": ("", []),
    "assigned": ("x = 1\nx\nx.a = x[0] = 2\nx += 1", []),
    "unpacked": ("(x, *y), x.a = z\nx, y", [(1, "z")]),
    "several targets": ("x = x[0] = 1", []),
    "annotated": ("x: int = 1\nx", [(1, "int")]),
    "walrus": ("(x := 1); x.sum()", []),
    "dictionary": ("{1: (x := 1), x: x}", []),
    "deleted": ("del x; x = 1; x", []),
    "deleted and read": ("del x\nx", []),
    "for": ("for x in [1]:\n    x.sum()", []),
    "for with a tuple": ("for i, (x, y) in []:\n    x, y, i", []),
    "walrus in the iterable": ("for i in (x := []): pass\nx", []),
    "walrus in the test of while": ("while (x := 0):\n    x\nelse:\n    x\nx", []),
    "walrus in the test of if": ("if (x := 1): pass\nx", []),
    "both branches": ("if 1:\n    x = 1\nelif 2:\n    x = 2\nelse:\n    x = 3\nx", []),
    "both results": ("(x := 1) if 1 else (x := 2)\nx", []),
    "first operand": ("(x := 1) and x\n(y := 1) < 2 < y\nx, y", []),
    "asserted": ("assert (x := 1), x\nx", []),
    "try and each handler": (
        "try:\n    pass\nexcept A:\n    x = 1\nexcept B:\n    x = 2\nelse:\n    x = 3\nx",
        [(3, "A"), (5, "B")],
    ),
    "try else": ("try:\n    x = 1\nexcept E:\n    pass\nelse:\n    x", [(3, "E")]),
    "finally": ("try:\n    y = 1\nfinally:\n    x = 1\nx, y", []),
    "error": ("try:\n    pass\nexcept E as x:\n    x.args", [(3, "E")]),
    "error of a group": ("try:\n    pass\nexcept* E as x:\n    x.args", [(3, "E")]),
    "with": ("with open(p) as x:\n    x.read()\n    y = 1\nx, y", [(1, "open"), (1, "p")]),
    "import": ("import m as x\nimport y.z\nx, y", []),
    "captured": ("match 1:\n    case x if x:\n        x.sum()", []),
    "captured in parts": ("match 1:\n    case [x, *y] | {'x': x, **y} | A(a=[_] as x, b=y):\n        x, y", [(2, "A")]),
    "match of an assigned one": ("x = 1\nmatch x:\n    case x.a: x", []),
    "parameter": ("def f(x):\n    return x.sum()", []),
    "each kind of parameter": ("def f(a, /, b, *c, d, **e): a, b, c, d, e", []),
    "walrus in a lambda": ("lambda: (x, (x := 1))", []),
    "local": ("def f():\n    x = 1\n    return x", []),
    "local, assigned later": ("def f():\n    x\n    if 1:\n        for x in []: pass", []),
    "local, augmented": ("def f():\n    x += 1", []),
    "local, imported": ("def f():\n    x, y\n    import x.a, b as y", []),
    "local, an error": ("def f():\n    try: x\n    except E as x: x", [(3, "E")]),
    "local, captured": ("def f():\n    x, y, z\n    match 1:\n        case [x, *y, {**z}]: pass", []),
    "local, from a walrus in a comprehension": ("def f():\n    [(x := a) for a in []]\n    x", []),
    "local, a function or class": ("def f():\n    x, y\n    def x(): pass\n    class y: pass", []),
    "local, annotated": ("def f():\n    x: y\n    x\n    x.a: y", []),
    "local of the enclosing function": ("def f(x):\n    y = 1\n    def g():\n        return lambda: (x, y)", []),
    "local of the enclosing function, in a class": ("def f(x):\n    class A:\n        x\n        def g(self): x", []),
    "nonlocal": ("def f():\n    def g():\n        nonlocal x\n        x\n        x = 1\n    x = 1", []),
    "nonlocal of a class": ("def f(x):\n    class A:\n        nonlocal x\n        x\n        x = 1", []),
    "global": ("x = 1\ndef f():\n    global x, y\n    y = 1\n    return x, y", []),
    "assigned before the function": ("x = 1\ndef f(): return x", []),
    "function": ("def x(): return x()\nx()", []),
    "coroutine": ("async def x(x): await x\nawait x(1)", []),
    "class": ("class x: pass\nx", []),
    "attribute of a class": ("class A:\n    x = 1\n    y = x\n    [a for a in x]\n    def x(self: y): pass\n    x", []),
    "assigned before the class": ("x = 1\nclass A:\n    x = x\n    def f(self): return x", []),
    "global of a class": ("class A:\n    global x\n    x = 1\nx", []),
    "comprehension": ("[x.sum() for x in ys]", [(1, "ys")]),
    "each comprehension": ("{x for x in []}, {x: x for x in []}, (x for x in [])", []),
    "walrus in a comprehension": ("[x for a in [] if (x := a)]", []),
    "async comprehension": ("[x async for x in y]", [(1, "y")]),
}

if sys.version_info >= (3, 12):
    ASSIGNED |= {
        "type parameters of a function": ("def f[T: x](a: T) -> y:\n    return T", [(1, "x"), (1, "y")]),
        "type parameters of a class": ("class A[T](B[T]):\n    a: T\n    def f(self): return T", [(1, "B")]),
        "type parameters of a method": ("class A:\n    x = 1\n    def f[T](self, a: x): return T, x", [(3, "x")]),
    }


class Variables(dict):
    """A namespace that records which of its first values are read."""

    def __init__(self, **values):
        super().__init__(values)
        self.first, self.read = values, set()

    def __getitem__(self, name):
        value = super().__getitem__(name)
        if value is self.first.get(name):
            self.read.add(name)
        return value


def read(code):
    compile(code, "cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)  # the tables have valid code only
    return names_read(ast.parse(code).body)


@pytest.mark.parametrize(("code", "names"), [*READS.values(), *ASSIGNED.values()], ids=[*READS, *ASSIGNED])
def test_what_code_reads_before_it_assigns_it_or_has_it_in_a_scope_of_its_own_is_from_outside(code, names):
    """What Python reads when it executes the code is among it."""
    assert read(code) == names
    variables = Variables(x=da.ones(2), y=da.zeros(2), z=da.ones(3))
    with contextlib.suppress(Exception):
        exec(code if "async" not in code else "", variables)  # noqa: S102 - the code of the tables above
    assert variables.read <= {name for _, name in names}


def test_a_class_in_a_function_reads_a_name_that_it_assigns_later_from_outside():
    code = "def f(x):\n    class A:\n        y = x\n        x = 2\n    return A\na = f(1)"
    variables = {"x": da.ones(2)}
    exec(code, variables)  # noqa: S102
    assert (variables["a"].y is variables["x"], read(code)) == (True, [(3, "x")])


def test_each_name_of_an_expression_too_deep_to_follow_is_from_outside():
    deep = " + ".join(["x"] * 900)
    assert names_read(ast.parse(f"x = y\n{deep}").body) == [(1, "y"), (2, "x")]


def test_a_real_cell():
    code = dedent(
        """
        import dask.array as da

        def scaled(x, factor=scale):
            center = x.mean()
            return (x - center) / factor + offset

        with open(path) as file:
            names = [line.strip() for line in file]
        results = {name: scaled(da.ones(4)) for name in names}
        for name, x in results.items():
            print(name, x.sum().compute())
        x
        """
    )
    assert read(code) == [(4, "scale"), (6, "offset"), (8, "open"), (8, "path"), (12, "print"), (13, "x")]
