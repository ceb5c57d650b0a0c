"""Fewer, larger tasks with the same numbers."""

import dask
import dask.array as da
import dask.bag as db
import numpy as np
import pytest
from dask._task_spec import List, Task, TaskRef
from dask.array.optimization import optimize as optimize_by_dask
from dask.core import flatten
from dask.layers import ArrayOverlapLayer
from distributed.protocol.pickle import dumps, loads

from jupyter_gpudask.graph.optimize import ArrayOptimizer, with_optimizer
from jupyter_gpudask.graph.overlap import with_few_overlaps
from jupyter_gpudask.graph.program import Program, as_one_task
from jupyter_gpudask.graph.subtrees import ClusterSize, fuse_subtrees

ONE = ClusterSize(1, 1)
TWO = ClusterSize(2, 2)


def numbers(shape=(400, 400), chunks=20, seed=1):
    return da.random.RandomState(seed).random_sample(shape, chunks=chunks)


def few():
    return numbers((200, 200))


def twice(array):
    return array + array.T


def filtered_images():
    """Images with a border that mirrors them, of which each block is needed several times for one block."""
    blocks = da.map_blocks(
        lambda block_id=None: np.arange(block_id[0], block_id[0] + 400.0).reshape(1, 20, 20),
        chunks=((1,) * 64, (20,), (20,)),
        meta=np.empty((0, 0, 0)),
    )
    return blocks.map_overlap(lambda block: block * 2 + block.sum(), {1: 3, 2: 3}, "reflect", meta=np.empty((0, 0, 0)))


COMPUTATIONS = {
    "sum of every second number plus one": lambda: da.sum((few() + 1)[::2, ::2]),
    "mean over an axis": lambda: (few() ** 2).mean(axis=0),
    "standard deviation": lambda: few().std(),
    "sum of an array and its transpose": lambda: (few() + few().T)[1:, 1:].mean(axis=0).sum(),
    "deviation from the mean": lambda: da.std(few() - few().mean()),
    "covariance of rows and columns": lambda: da.sum((few() - few().mean(axis=0)) * few().T),
    "mean and deviation of ones": lambda: da.mean(da.ones((200, 200), chunks=20) * 2 - few().T + few()),
    "a generator used twice": lambda: twice(da.random.default_rng(1).random((400, 400), chunks=20)).sum(),
    "argmax": lambda: few().argmax(axis=1),
    "topk": lambda: da.topk(numbers((4000,), 100), 5),
    "matmul": lambda: (numbers((400, 400), 100) @ numbers((400, 400), 100)).sum(axis=0),
    "cumsum": lambda: few().cumsum(axis=0).max(),
    "histogram": lambda: da.histogram(few(), bins=10, range=(0, 1))[0],
    "svd": lambda: da.linalg.svd(numbers((4000, 10), (100, 10)))[1],
    "percentile": lambda: da.percentile(numbers((4000,), 100), [1, 50, 99]),
    "unique": lambda: da.unique((numbers((4000,), 100) * 10).astype(int)),
    "rechunk": lambda: numbers((400, 400), (400, 10)).rechunk((10, 400)).sum(axis=1),
    "overlap": lambda: few().map_overlap(lambda block: block * 2, depth=1).sum(),
    "borders of images": lambda: filtered_images().max(axis=0),
    "no reduction": lambda: few() + 1,
    "block info": lambda: few().map_blocks(lambda block, block_info=None: block + len(block_info), dtype=float).sum(),
    "boolean index": lambda: da.sum(few()[few() > 0.5]),
    "from_array": lambda: da.from_array(np.arange(4000.0).reshape(400, 10), chunks=5).sum(axis=1).max(),
    "a block of a bag": lambda: da.concatenate(
        [
            da.from_delayed(part, shape=(10,), dtype=int)
            for part in db.range(20, npartitions=2).map_partitions(np.asarray).to_delayed()
        ]
    ),
    "delayed blocks": lambda: da.stack(
        [da.from_delayed(dask.delayed(np.ones)(4), (4,), float) for _ in range(40)]
    ).sum(),
}


@pytest.mark.parametrize("make", COMPUTATIONS.values(), ids=COMPUTATIONS)
def test_each_number_is_that_of_dasks_own_graph(make):
    """With slices first, which only workers with GPUs take, the last digit may differ."""
    expected = make().compute(scheduler="sync")
    for optimizer in (ArrayOptimizer(ONE), ArrayOptimizer(TWO), with_room(ONE), with_room(TWO)):
        with dask.config.set(array_optimize=optimizer):
            result = make().compute(scheduler="sync")
        if optimizer.is_on_gpus:
            np.testing.assert_allclose(result, expected, rtol=1e-14)
        else:
            np.testing.assert_array_equal(result, expected, strict=True)


def optimized(collection):
    return dict(optimize_by_dask(collection.__dask_graph__(), collection.__dask_keys__()))


def fused(collection, size=ONE):
    keys = list(dask.core.flatten(collection.__dask_keys__()))
    return fuse_subtrees(optimized(collection), keys, size)[0]


def test_a_reduction_of_many_blocks_becomes_few_tasks():
    total = da.ones((2500, 10), chunks=(1, 10)).sum()
    assert len(optimized(total)) > 4000
    assert len(fused(total)) < 100


def test_what_needs_a_block_several_times_for_one_result_is_one_task_with_it():
    largest = filtered_images().max(axis=0)
    assert len(optimized(largest)) > 64 * 4
    tasks = fused(largest)
    assert len(tasks) < 64 / 4


def test_blocks_of_element_wise_steps_do_not_order_the_steps_anew():
    drawn, of_ones = ((each + 1) * 2 - 3 for each in (numbers(), da.ones((400, 400), chunks=20)))
    functions = [
        [task.func for task in ArrayOptimizer(ONE)(array.__dask_graph__(), array.__dask_keys__()).values()]
        for array in (drawn, of_ones)
    ]
    assert [len(each) for each in functions] == [400, 400]
    assert all(isinstance(function, Program) for each in functions for function in each)
    assert len(set(map(id, functions[1]))) == 1  # where Dask has one fused task for all blocks


def test_enough_tasks_remain_for_all_threads():
    total = da.ones(64, chunks=1).sum()
    for threads in (1, 2, 4, 8):
        graph = fused(total, ClusterSize(threads, threads))
        leaves = [key for key, task in graph.items() if not task.dependencies]
        assert len(leaves) >= 4 * threads


def test_outputs_of_a_p2p_shuffle_stay_tasks_of_their_own():
    """Each runs on the worker that has it; one task that needs two of them would move between workers without end."""
    array = numbers((400, 400), (400, 10)).rechunk((10, 400), method="p2p")
    graph = fused(array.sum(), ClusterSize(2, 2))
    barriers = {key for key, task in graph.items() if task.block_fusion}
    assert len(barriers) == 1
    assert sum(1 for task in graph.values() if task.dependencies & barriers) == 40


def test_few_blocks_stay_as_they_are():
    total = da.ones(6, chunks=1).sum()
    assert fused(total).keys() == optimized(total).keys()


def test_the_tasks_that_remain_keep_their_keys():
    array = (numbers() + 1).sum(axis=0)
    graph = fused(array)
    assert set(dask.core.flatten(array.__dask_keys__())) <= graph.keys() <= optimized(array).keys()


def test_what_two_tasks_need_is_computed_once():
    computed = []

    def note(block):
        computed.append(1)
        return block

    array = da.ones((40, 40), chunks=4).map_blocks(note, dtype=float, meta=np.empty((0, 0)))
    with dask.config.set(array_optimize=ArrayOptimizer(ONE)):
        (array + array.T).sum().compute(scheduler="sync")
    assert len(computed) == 100


class Block:
    """What one leaf holds; counted while it lives."""

    alive = 0
    most = 0

    def __init__(self):
        Block.alive += 1
        Block.most = max(Block.most, Block.alive)

    def __del__(self):
        Block.alive -= 1


def test_a_task_holds_the_data_of_one_leaf_at_a_time():
    def combine(parts):
        return sum(parts)

    tasks = {("block", n): Task(("block", n), Block) for n in range(64)}
    tasks |= {("one", n): Task(("one", n), lambda block: 1, TaskRef(("block", n))) for n in range(64)}
    for level, count in ((0, 16), (1, 4), (2, 1)):
        name = "one" if level == 0 else f"part-{level - 1}"
        tasks |= {
            (f"part-{level}", n): Task(
                (f"part-{level}", n), combine, List(*(TaskRef((name, 4 * n + m)) for m in range(4)))
            )
            for n in range(count)
        }
    graph, *_ = fuse_subtrees(tasks, [("part-2", 0)], ONE)
    assert len(graph) < 10
    values = {}
    for key in dask.core.toposort({key: list(task.dependencies) for key, task in graph.items()}):
        values[key] = graph[key](values)
    assert values[("part-2", 0)] == 64
    assert Block.most == 1


def test_data_that_is_there_does_not_all_go_to_one_worker():
    tasks = {("sum", n): Task(("sum", n), np.sum, TaskRef(("persisted", n))) for n in range(100)}
    for level, count in ((0, 25), (1, 5)):
        name, width = ("sum", 4) if level == 0 else ("part-0", 5)
        tasks |= {
            (f"part-{level}", n): Task(
                (f"part-{level}", n), sum, List(*(TaskRef((name, width * n + m)) for m in range(width)))
            )
            for n in range(count)
        }
    wanted = [("part-1", n) for n in range(5)]
    assert fuse_subtrees(tasks, wanted, TWO)[0].keys() == tasks.keys()
    alone, *_ = fuse_subtrees(tasks, wanted, ONE)
    assert len(alone) < len(tasks)
    assert max(len(task.dependencies) for task in alone.values()) <= 16


def test_a_program_releases_what_it_no_longer_needs_and_can_be_pickled():
    tasks = {
        "a": Task("a", int, 1),
        "b": Task("b", int.__add__, TaskRef("a"), TaskRef("outside")),
        "c": Task("c", int.__add__, TaskRef("a"), TaskRef("b")),
    }
    task = as_one_task("c", tasks)
    assert task.dependencies == {"outside"}
    again = loads(dumps(task))
    assert again({"outside": 3}) == task({"outside": 3}) == 5
    released = [set(unneeded) for _, unneeded in task.func.steps]
    assert released == [set(), {"outside"}, {"a", "b"}]


def test_an_optimizer_of_the_users_own_stays():
    def own(graph, _keys, **_options):
        return graph

    with dask.config.set(array_optimize=own):
        expression = dask.base.collections_to_expr([da.ones(4, chunks=1).sum()])
    assert with_optimizer(expression, ArrayOptimizer(ONE)) is expression


def test_without_dasks_low_level_fusion_there_is_none_of_ours():
    total = da.ones(2500, chunks=1).sum()
    with dask.config.set({"optimization.fuse.active": False}):
        graph = ArrayOptimizer(ONE)(total.__dask_graph__(), total.__dask_keys__())
    assert len(graph) > 2500


def test_the_keys_that_are_wanted_stay_the_same():
    for collections in ([da.ones(400, chunks=1).sum()], [da.ones(400, chunks=1).sum(), dask.delayed(sum)([1])]):
        expression = dask.base.collections_to_expr(collections).finalize_compute()
        changed = with_optimizer(expression, ArrayOptimizer(ONE))
        assert changed is not expression
        assert changed.__dask_keys__() == expression.__dask_keys__()


def tasks_of(array, **options):
    graph = array.__dask_graph__()
    return len(ArrayOptimizer(ONE, **options)(graph, array.__dask_keys__()))


def of_the_user(block):
    return block * 2


class OfFile:
    """An array from which blocks are read, as one of Zarr."""

    shape, dtype, ndim = (1280,), np.dtype(float), 1

    def __getitem__(self, index):
        return np.zeros(self.shape)[index]


def test_of_functions_that_may_run_on_the_host_more_tasks_are_left_on_gpus():
    plain = numbers((1280,), 10)
    mapped = plain.map_blocks(of_the_user, dtype=float)
    read = da.from_array(OfFile(), chunks=10, inline_array=True)
    assert tasks_of(plain.sum(), is_on_gpus=True) == tasks_of(mapped.sum()) < 16
    assert tasks_of(mapped.sum(), is_on_gpus=True) >= 32
    assert tasks_of(read.sum(), is_on_gpus=True) >= 32


def test_of_what_needs_the_results_of_such_functions_no_more_tasks_are_left():
    x = da.ones((1280, 10), chunks=10)
    mean, total = da.apply_gufunc(lambda x: (x.mean(-1), x.sum(-1)), "(i)->(),()", x, output_dtypes=(float, float))
    assert tasks_of(mean.sum() + total.sum(), is_on_gpus=True) < 128 + 2 * 16, "a task of the function for each block"


def with_room(size):
    return ArrayOptimizer(size._replace(memory=10**9), is_on_gpus=True)


def computed(optimizer, *arrays):
    """What `dask.compute` gives, and its graph."""
    graphs = []

    def get(expression, keys, **_):
        graphs.append(dict(expression.__dask_graph__()))
        return dask.get(graphs[0], keys)

    with dask.config.set(array_optimize=optimizer):
        return dask.compute(*arrays, scheduler=get), graphs[0]


GATHERED = {
    "a grid": numbers() + 1,
    "rows": numbers((4000, 3), 10) + 1,
    "one dimension": numbers((1000,), 1) + 1,
    "sums of rows": numbers((400, 40), (1, 4)).sum(axis=1),
    "blocks that are there": da.from_array(np.arange(4000), chunks=10, inline_array=True)[::2],
    "of other shapes": da.from_array(np.arange(4000), chunks=(*range(1, 89), 84)) * 2,
}


@pytest.mark.parametrize("array", GATHERED.values(), ids=GATHERED)
@pytest.mark.parametrize("size", [ONE, TWO])
def test_blocks_that_are_only_gathered_are_made_by_several(array, size):
    (result,), graph = computed(with_room(size), array)
    assert len(graph) <= array.npartitions / 4
    np.testing.assert_array_equal(result, array.compute(scheduler="sync", optimize_graph=False), strict=True)


def test_tasks_of_several_blocks_have_names_of_their_own():
    x = da.ones((1000,), chunks=1).map_blocks(np.negative, dtype=float)
    (first, second), both = computed(with_room(ONE), x[:500], x[500:])
    assert (first.sum(), second.sum()) == (-500, -500)
    graphs = [both, *(computed(with_room(ONE), part)[1] for part in (x, x[:500], x[1:]))]
    found = [{key: task for key, task in graph.items() if str(key[0]).endswith("-blocks")} for graph in graphs]
    assert [len(each) for each in found] == [16, 16, 8, 16]
    steps = {}
    for key, task in (item for each in found for item in each.items()):
        blocks = [step.key for step, _ in task.func.steps[:-1]]
        assert steps.setdefault(key, blocks) == blocks
    assert 40 < len(steps) < 56


def test_blocks_that_have_no_room_or_that_others_need_are_made_one_by_one():
    x = numbers((1000,), 1) + 1
    assert len(computed(with_room(ONE), x)[1]) < 100
    assert len(computed(ArrayOptimizer(ONE._replace(memory=10_000), is_on_gpus=True), x)[1]) > 1000
    into = np.zeros(1000)
    assert len(computed(with_room(ONE), x.store(into, compute=False, return_stored=True, lock=False))[1]) > 1000
    np.testing.assert_array_equal(into, x.compute(scheduler="sync"))
    of_user = x.map_blocks(of_the_user, dtype=float)
    (blocks, total), graph = computed(with_room(ONE), of_user, of_user.sum())
    assert len(graph) > 1000
    assert (blocks.sum(), len(blocks)) == (pytest.approx(total), 1000)
    assert 32 <= len(computed(with_room(ONE), of_user)[1]) < 200
    shuffled = numbers((400, 400), (400, 10)).rechunk((10, 400), method="p2p")
    with dask.config.set(array_optimize=with_room(TWO)):
        graph = dict(dask.base.collections_to_expr([shuffled]).optimize().__dask_graph__())
    barriers = {key for key, task in graph.items() if task.block_fusion}
    assert sum(1 for task in graph.values() if task.dependencies & barriers) == 40


def test_blocks_with_borders_are_few_tasks_and_only_those_of_a_slice_are_made():
    x = da.random.RandomState(1).random_sample((400, 400), chunks=20)
    bordered = x.map_overlap(lambda block: block - block.mean(), depth=1, boundary="reflect", dtype=float)
    for size in (ONE, TWO):
        graph = ArrayOptimizer(size)(bordered.sum().__dask_graph__(), bordered.sum().__dask_keys__())
        assert len(graph) < 200  # of 400 blocks, of which each has eight neighbors
        with dask.config.set(array_optimize=ArrayOptimizer(size)):
            np.testing.assert_array_equal(
                bordered[:50, 100:].compute(scheduler="sync"), bordered.compute(scheduler="sync")[:50, 100:]
            )
    layer = next(layer for layer in bordered[:20].dask.layers.values() if isinstance(layer, ArrayOverlapLayer))
    made = with_few_overlaps(bordered[:20].dask).cull(set(flatten(bordered[:20].__dask_keys__())))
    assert 0 < sum(str(key[0]).startswith("overlap-") for key in made.to_dict()) < 60
    assert not layer.is_materialized()


@pytest.mark.parametrize(
    ("depth", "boundary"),
    [(1, "reflect"), ({0: 2, 1: 0}, "periodic"), ({0: (1, 2), 1: (0, 1)}, "none"), ({0: 0, 1: 3}, {0: "none", 1: 5})],
)
def test_borders_are_those_of_dask(depth, boundary):
    x = da.arange(30 * 17).reshape(30, 17).rechunk((4, 5))
    bordered = da.overlap.overlap(x, depth, boundary)[3:20, 2:]
    expected = bordered.compute(scheduler="sync")
    graph = with_few_overlaps(bordered.dask).cull(set(flatten(bordered.__dask_keys__()))).to_dict()
    blocks = dask.get(graph, bordered.__dask_keys__())
    np.testing.assert_array_equal(np.concatenate([np.concatenate(row, axis=1) for row in blocks]), expected)


@pytest.mark.parametrize(("name", "size", "most"), [("random", ONE, 180), ("random", TWO, 200), ("poisson", TWO, 400)])
def test_borders_are_taken_in_the_tasks_that_need_them(name, size, most):
    def smoothed(block):
        return block * 2 + block.sum(axis=0)

    # Numbers of Poisson's distribution are drawn once, as that takes long; the others wherever they are needed.
    state = da.random.RandomState(1)
    x = state.poisson(3, (400, 400), chunks=50) if name == "poisson" else state.random_sample((400, 400), chunks=50)
    y = x.map_overlap(smoothed, 1, boundary="reflect", dtype=float)
    optimizer = with_room(size)
    graph = optimizer(y.mean().__dask_graph__(), y.mean().__dask_keys__())
    assert len(graph) < most, "of 64 blocks; each has up to 8 borders"
    with dask.config.set(array_optimize=optimizer, scheduler="sync"):
        found = y.compute()
    assert np.array_equal(found, y.compute(scheduler="sync", optimize_graph=False))
    if name == "random":
        return
    little = ArrayOptimizer(size._replace(memory=10**4), is_on_gpus=True)
    assert len(little(y.mean().__dask_graph__(), y.mean().__dask_keys__())) > most + 200, "blocks are released sooner"
