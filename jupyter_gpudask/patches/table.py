"""The table of patches: each change of another library, where it is applied, why, and for which versions.

A patch is a monkeypatch. This table lists all of them; `apply` applies and undoes them. The rows of the kernel are
applied by the first ``%%gpudask`` cell or `jupyter_gpudask.gpu`, and undone by ``%unload_ext``; cells with NumPy and
pandas apply only the rows with ``on_cpu``. The supervisor and the workers apply their rows themselves:
`supervisor.dashboard` before the scheduler is created, `worker.plugins` when a worker joins. Those last as
long as the process.
"""

from __future__ import annotations

from .patch import Change, Patch

_CUPY = {"cupy": "<15"}

_HERE = "jupyter_gpudask.patches"
_RANDOM = "dask.array.random"
_SHUFFLE = "dask.dataframe.dask_expr._shuffle"
_GENERATORS = "jupyter_gpudask.random_numbers.generators"

ARRAY_FUNCTIONS = ("asanyarray", "asarray", "diag", "eye", "from_delayed", "from_npy_stack", "linspace")
"""Functions of `dask.array` whose blocks are created on the worker's host and moved to its GPU."""

FRAME_FUNCTIONS = ("concat", "from_array", "from_delayed", "from_map", "from_pandas", "read_sql_query", "repartition")
"""Functions of `dask.dataframe`, likewise."""


def _code(target: str, wrapper: str) -> Change:
    """A change of a function that modules of Dask, or the user, have imported by name."""
    return Change(target, f"{_HERE}.{wrapper}", how="code")


def _attribute(target: str, wrapper: str) -> Change:
    """A change of a method, or of a function that only its own module calls."""
    return Change(target, f"{_HERE}.{wrapper}")


PATCHES = (
    Patch(
        "configuration per cell",
        (
            Change(
                "dask.config:update",
                "jupyter_gpudask.overlay:install_sections",
                how="call",
                undo="jupyter_gpudask.overlay:remove_sections",
            ),
            Change("dask.config:refresh", "jupyter_gpudask.overlay:refresh", how="code"),
        ),
        reason="dask.config.set is process-wide: other threads see its changes, and with overlapping exits the "
        "settings stay changed.",
        upstream=("dask-config-per-context",),
        test="switch/test_switch.py::test_two_at_the_same_time_do_not_see_each_other",
        on_cpu=True,
    ),
    Patch(
        "context of threads",
        (
            Change(
                "threading:Thread.start",
                "jupyter_gpudask.overlay:start",
                unless="sys:flags.thread_inherit_context",
            ),
            Change("concurrent.futures:ThreadPoolExecutor.submit", "jupyter_gpudask.overlay:submit"),
            *(
                Change(f"multiprocessing.pool:Pool.{name}", "jupyter_gpudask.overlay:submit_to_pool")
                for name in ("apply_async", "_map_async", "imap", "imap_unordered")
            ),
        ),
        reason="Threads and pools that a cell starts would compute on the CPU, because they do not inherit its "
        "context. Python 3.14 has the flag thread_inherit_context for new threads, but nothing for existing pools.",
        upstream=("python-context-of-pools",),
        test="switch/test_switch.py::test_a_thread_that_is_started_inside_sees_it_until_it_ends",
        requires={"python": ">=3.11"},
        on_cpu=True,
    ),
    Patch(
        "CuPy backend",
        (
            Change(
                "dask.array.backends:array_creation_dispatch.register_backend",
                f"{_HERE}.arrays.cupy_backend:register",
                how="call",
                undo=f"{_HERE}.arrays.cupy_backend:unregister",
            ),
        ),
        reason="In Dask, da.arange(n) has the same name on NumPy and CuPy. Both therefore share a key, and a cluster "
        "returns one for the other. Dask's CuPy backend also sets array.backend for the whole process while it creates "
        "an array.",
        upstream=("dask-arange-key",),
        test="switch/test_arrays.py::test_each_backend_gives_its_own_data_when_the_other_is_persisted",
    ),
    Patch(
        "dataframe backend",
        (
            Change(
                "dask.dataframe.backends:dataframe_creation_dispatch.register_backend",
                f"{_HERE}.frames.cudf_backend:register",
                how="call",
                undo=f"{_HERE}.frames.cudf_backend:unregister",
            ),
        ),
        reason="dask_cudf plans with metadata of cuDF, which needs a CUDA context in the kernel, and reads the columns "
        "of text files with the dtypes of each part. cuDF's readers lack some options of pandas.",
        upstream=("dask-cudf-metadata-on-host",),
        test="fallback/test_files.py::test_what_cudf_reads_otherwise_is_read_on_the_host",
    ),
    Patch(
        "random numbers",
        (
            Change(f"{_RANDOM}:_wrap_func", f"{_GENERATORS}:wrap_func"),
            Change(f"{_RANDOM}:Generator.choice", f"{_GENERATORS}:choice"),
            Change(f"{_RANDOM}:RandomState.choice", f"{_GENERATORS}:choice_of_state"),
            Change(f"{_RANDOM}:Generator.permutation", f"{_GENERATORS}:permutation"),
            Change(f"{_RANDOM}:RandomState.permutation", f"{_GENERATORS}:permutation"),
            Change(f"{_RANDOM}:_cached_states", f"{_GENERATORS}:SharedStates", how="value"),
            Change(f"{_RANDOM}:RandomState.seed", f"{_GENERATORS}:seed"),
        ),
        reason="CuPy's Generator lacks half of NumPy's methods, and its RandomState accepts only numbers where NumPy "
        "accepts arrays. Dask's choice and permutation use the current configuration instead of the generator's own "
        "backend. da.random.seed seeds only the generator of the current backend.",
        upstream=("https://github.com/cupy/cupy/issues/4557", "dask-random-seed"),
        test="switch/test_random.py::test_meta_blocks_and_result_are_cupy_and_look_as_on_the_cpu",
    ),
    Patch(
        "bags and records",
        (
            _code("dask.dataframe.dask_expr.io.bag:to_bag", "frames.methods:from_host"),
            _code("dask.dataframe.dask_expr.io.records:to_records", "frames.methods:from_host"),
            _attribute("dask.dataframe:DataFrame.iterrows", "frames.methods:rows_from_host"),
            _attribute("dask.dataframe:DataFrame.itertuples", "frames.methods:rows_from_host"),
            _attribute("dask.dataframe:Series.__iter__", "frames.methods:rows_from_host"),
            _code("dask.dataframe.io.csv:to_csv", "frames.files.writers:write_by_pandas"),
            _code("dask.dataframe.io.hdf:to_hdf", "frames.files.writers:write_by_pandas"),
            _code("dask.dataframe.io.sql:to_sql", "frames.files.writers:write_by_pandas"),
        ),
        reason="For cuDF partitions, Dask creates a bag of None, no records, and no rows in iterrows. A cuDF Series "
        "cannot be iterated. cuDF's to_csv writes nine digits of a number, and cuDF has no to_sql.",
        upstream=("dask-cudf-to-bag", "https://github.com/NVIDIA/cudf/issues/6418"),
        test="switch/test_frames.py::test_bags_and_records_are_made_of_the_rows",
    ),
    Patch(
        "Parquet engine by dataframe",
        (_code("dask.dataframe:to_parquet", "frames.files.writers:write_parquet"),),
        reason="to_parquet uses cuDF, the engine of the current backend, even for a dataframe on the CPU. It uses "
        "pyarrow for a dataframe on GPUs if the user names that engine. dask_cudf ignores compression, schema and "
        "custom_metadata.",
        upstream=("dask-to-parquet-engine",),
        test="switch/test_frames.py::test_a_pandas_frame_is_written_as_pandas_writes_it",
    ),
    Patch(
        "labels of rows",
        (_attribute("dask.dataframe.dask_expr._indexing:LocIndexer._loc", "frames.methods:loc"),),
        reason="cuDF interprets a label such as '2015-05-05' as one moment, pandas as the whole day.",
        upstream=("cudf-label-of-a-day",),
        test="switch/test_results_as_pandas.py::test_a_text_that_names_a_day_is_its_slice_where_divisions_are_unknown",
    ),
    Patch(
        "shuffle by tasks",
        (
            _code("dask.utils:get_default_shuffle_method", "shuffle:default_shuffle_method"),
            _code("dask.array:rechunk", "shuffle:rechunk"),
            *(
                Change(f"{_SHUFFLE}:{name}", f"{_HERE}.shuffle:in_order", how="value")
                for name in ("AssignPartitioningIndex", "SimpleShuffle", "TaskShuffle")
            ),
            _attribute(f"{_SHUFFLE}:RearrangeByColumn._lower", "shuffle:lower_by_numbers"),
        ),
        reason="In the peer-to-peer shuffle, the scheduler unpickles CuPy metadata, which creates a CUDA context, and "
        "the workers write blocks to files. For sliding windows, Dask splits blocks into parts that are too small for "
        "a GPU. When cuDF splits a dataframe, it changes the order of the rows, so drop_duplicates does not keep the "
        "first rows. It hashes the codes of categories, so rows of one category go to several partitions. "
        "Dask does not drop its column _partitions if columns have several levels, and shuffles rows by their index.",
        upstream=(
            "https://github.com/NVIDIA/cudf/pull/15469",
            "cudf-order-of-split-rows",
            "dask-shuffle-of-column-levels",
        ),
        test="switch/test_arrays.py::test_blocks_on_gpus_are_rechunked_by_tasks_and_others_as_dask_chooses",
    ),
    Patch(
        "creation functions",
        (
            *(_code(f"dask.array:{name}", "arrays.operand_placement:create_array") for name in ARRAY_FUNCTIONS),
            *(_code(f"dask.dataframe:{name}", "frames.cudf_backend:create_frame") for name in FRAME_FUNCTIONS),
            _code("dask.dataframe.dask_expr.datasets:timeseries", "frames.cudf_backend:create_frame"),
            _attribute("dask.bag:Bag.to_dataframe", "frames.cudf_backend:create_frame"),
            _code("dask.dataframe:from_dask_array", "frames.cudf_backend:frame_of_array"),
        ),
        reason="Dask dispatches ones, zeros, empty, full, arange, random numbers, from_dict and the readers to a "
        "backend, and no other creation function.",
        upstream=("dask-creation-functions",),
        test="switch/test_arrays.py::test_an_array_is_cupy_in_meta_in_blocks_and_in_the_result",
    ),
    Patch(
        "operand placement",
        (
            _code("dask.array.blockwise:blockwise", "arrays.operand_placement:blockwise"),
            *(
                _code(f"dask.array:{name}", "arrays.operand_placement:of_one_array")
                for name in ("diagonal", "frexp", "modf")
            ),
        ),
        reason="x + np.ones(3) creates a NumPy array inside Dask, and CuPy refuses to add it to x. Dask infers "
        "metadata from plain data before it creates an array from the data, so da.sum(np.ones(3)) has NumPy metadata.",
        upstream=("dask-plain-operands",),
        test="switch/test_operand_placement.py::test_beside_a_collection_of_the_cell_it_is_on_the_gpu",
    ),
    Patch(
        "fallback to the host",
        (
            _code("dask.array._reductions_generic:partial_reduce", "host_fallback:reduce_blocks"),
            _code("dask.local:get_async", "host_fallback:run_locally"),
        ),
        reason="If CuPy or cuDF lack a function, Dask fails. With GpuDask.fallback = 'host', the function gets host "
        "copies of the blocks, also to infer metadata.",
        upstream=("dask-hook-around-tasks",),
        test="fallback/test_host_fallback.py::test_what_cupy_lacks_is_computed_on_the_host",
    ),
    Patch(
        "categories",
        tuple(
            _attribute(
                f"dask.dataframe.dask_expr._categorical:CategoricalAccessor.{name}",
                "frames.methods:with_categories",
            )
            for name in ("as_known", "remove_unused_categories")
        ),
        reason="Dask computes the categories of a series, and cuDF returns them in the order of a hash table.",
        upstream=("cudf-as-known",),
        test="switch/test_results_as_pandas.py::test_categories_become_known_in_the_order_of_pandas",
    ),
    Patch(
        "metadata",
        (
            _code("dask.array.utils:compute_meta", "arrays.block_meta:compute_meta"),
            _code("dask.array.core:apply_infer_dtype", "user_functions:infer_dtype"),
            _code("dask.dataframe.dask_expr._expr:emulate", "user_functions:infer_metadata"),
            _attribute("dask.dataframe.dask_expr._groupby:_meta_apply_transform", "user_functions:infer_groups"),
            _attribute("dask.array:Array.__new__", "arrays.block_meta:make_array"),
            _code("dask.array:coarsen", "arrays.block_meta:coarsen"),
        ),
        reason="Dask calls functions of the user with empty CuPy arrays in the kernel. CuPy writes beyond an empty "
        "array, where NumPy raises an IndexError, and the kernel's CUDA context is broken for good. Dask sets NumPy "
        "metadata for arrays whose metadata it cannot infer (an FFT, x[x > 0]), even if they are computed "
        "from CuPy arrays.",
        upstream=("cupy-assignment-to-empty", "dask-metadata-on-host", "dask-meta-follows-input"),
        test="switch/test_metadata_of_functions.py::test_a_function_is_called_with_metadata_on_the_host",
    ),
    Patch(
        "borders of blocks",
        (_code("dask.array.overlap:overlap", "arrays.borders:overlap"),),
        reason="Along an axis with one block, map_overlap slices and joins the border of each block. For 120 images, "
        "the graph takes a third of the time of a Gaussian filter on a GPU.",
        upstream=("dask-borders-of-single-blocks",),
        test="switch/test_arrays.py::test_borders_are_those_of_dask",
    ),
    Patch(
        "slices with a step",
        (_attribute("dask.array:Array.__getitem__", "arrays.steps:getitem"),),
        reason="Of x[2:6:4] in blocks of 5, Dask keeps an empty second block: x[2:6:4] + 1 has two elements, and "
        "argmax of such a slice fails.",
        upstream=("dask-empty-blocks-of-steps",),
        test="switch/test_arrays.py::test_a_slice_with_a_step_has_no_empty_blocks",
    ),
    Patch(
        "metadata of merges",
        (
            Change(
                "dask.dataframe.dask_expr._merge:Merge._meta",
                f"{_HERE}.frames.merge_metadata:once_for_each_schema",
                how="value",
            ),
        ),
        reason="Dask computes the metadata of a merge again whenever its optimizer rewrites an operand, which is a "
        "third of the time of a plan with merges.",
        upstream=("dask-metadata-of-merges",),
        test="switch/test_metadata_of_frames.py::test_the_metadata_of_a_merge_is_computed_once",
    ),
    Patch(
        "numeric functions of CuPy",
        (
            _code("dask.array:quantile", "arrays.quantiles:quantile"),
            _code("dask.array:median", "arrays.quantiles:median"),
            _code("dask.array:nanmedian", "arrays.quantiles:median"),
            _code("dask.array:percentile", "arrays.quantiles:percentile"),
            _code("dask.array:histogram", "arrays.histograms:histogram"),
            _code("dask.array:histogramdd", "arrays.histograms:histogramdd"),
            *(
                _code(f"dask.array:{name}", "arrays.complex_numbers:without_partial_nan")
                for name in ("nanmean", "nanprod", "nanstd", "nansum", "nanvar")
            ),
            _code("dask.array:angle", "arrays.numeric:angle"),
            _code("dask.array:insert", "arrays.numeric:insert"),
            _code("dask.array:unique", "arrays.numeric:unique"),
            _code("dask.array.reductions:arg_reduction", "arrays.extremes:arg_reduction"),
            _code("dask.array.reductions:reduction", "arrays.numeric:reduction"),
            _attribute("dask.array:Array.__setitem__", "arrays.numeric:assign"),
            _attribute("dask.array:Array.astype", "arrays.numeric:astype"),
        ),
        reason="In quantiles, CuPy reads past the end of empty blocks, and sorts NaN after all numbers. With "
        "infinities, quantiles of other rows are NaN, and nanmedian returns 9e307. CuPy rounds a quotient before the "
        "floor: 1.0 // 0.1 is 10, and 9 in NumPy. Its angle is wrong for NaN, and its nanargmax and nanargmin "
        "return -1 for a block of NaN. Its histograms count values on an edge in another bin. 1j / 0j is "
        "NaN, nanprod takes NaN + NaN * 1j for 1 + 1j, and negative floats become 0 in unsigned integers. CuPy has no "
        "structured arrays, which da.unique needs for counts. da.insert creates a NumPy array. x[da.asarray([7])] = 0 "
        "changes elements of other blocks, and x[0] = np.ma.masked loses the mask. Dask itself counts no NaN in "
        "da.unique, returns any of several equal extremes, and of x[x > 0].std() of many blocks NaN if one is empty.",
        upstream=(
            "https://github.com/cupy/cupy/issues/9110",
            "cupy-floor-division",
            "cupy-nanargmax",
            "dask-assignment-by-an-array",
            "dask-variance-of-empty-blocks",
            "dask-counts-of-nan",
            "dask-first-of-equal-extremes",
        ),
        test="switch/test_all_chunks.py::test_quotients_and_remainders_are_those_of_numpy",
        needed=_CUPY,
    ),
    Patch(
        "results of pandas",
        (
            _code("dask._collections:new_collection", "frames.collection:new_collection"),
            _attribute("dask.dataframe.dask_expr:FrameBase.__dask_postpersist__", "frames.collection:postpersist"),
            _attribute("dask.dataframe.dask_expr:FrameBase.to_dask_array", "frames.methods:to_dask_array"),
            _attribute("dask.dataframe.dask_expr.io.io:FromPandas._get_lengths", "frames.methods:lengths"),
            _attribute(
                "dask.dataframe.dask_expr._expr:Expr._filter_passthrough_available", "frames.optimizer:filters_pass"
            ),
            _code("dask.dataframe.dask_expr._expr:plain_column_projection", "frames.optimizer:columns_pass"),
            *(
                _attribute(f"dask.dataframe.dask_expr._expr:{kind}._lower", "frames.optimizer:align")
                for kind in ("MaybeAlignPartitions", "OpAlignPartitions")
            ),
            Change(
                "dask.dataframe.dask_expr._merge:Merge.unique_partition_mapping_columns_from_shuffle",
                f"{_HERE}.frames.optimizer:shuffled_columns",
                how="value",
            ),
            Change(
                "dask.dataframe.dask_expr._reductions:ApplyConcatApply.unique_partition_mapping_columns_from_shuffle",
                f"{_HERE}.frames.optimizer:named_columns",
                how="value",
            ),
            Change(
                "dask.dataframe.dask_expr._merge:Merge.is_broadcast_join",
                f"{_HERE}.frames.optimizer:is_sent_to_all",
                how="value",
            ),
            _attribute("dask.dataframe.dask_expr._merge:Merge._simplify_up", "frames.optimizer:columns_of_merge_pass"),
            _attribute(
                "dask.dataframe.dask_expr._merge:Merge._on_condition_already_partitioned",
                "frames.optimizer:is_shuffled",
            ),
        ),
        reason="Dask knows the device of partitions by the type of the metadata, which is of pandas for dataframes on "
        "GPUs, too. cuDF's comparisons return missing values for NaN, its groups are in the order of a hash "
        "table, and its text and time methods return other dtypes. It rounds the quotient of x // y first. "
        "Once the length of a dataframe on GPUs was computed, Dask returns this length for each of its "
        "partitions, too. If the condition of a filter is a conversion, Dask filters the condition instead of "
        "the dataframe: df[df.x.astype(bool)] returns df.x.astype(bool). On GPUs it does so for each condition "
        "that ran on the host. Dask selects no columns by a name of the first of several levels, unless the "
        "selection is the last operation. After df.fillna({'x': 0}), and other methods with a value for each column, "
        "it makes the selected column a Series first, of which x is a label. Of concatenated dataframes it leaves out "
        "those without the selected columns, and so their rows. Its idxmin takes all columns of one first level for "
        "one column. It reads several files as one partition, but to_dask_array(lengths=True) expects as many lengths "
        "as there are files, and set_index loses its divisions, or rows. Its sort_values leaves missing values among "
        "others, and sorts by them. After a merge that shuffled no operand, and distinct rows, it takes the partitions "
        "for those of a shuffle by the key of the next merge, which loses rows, and groups of distinct rows fail. It "
        "does not align single partitions of which the divisions differ. Its means and variances of groups have one "
        "of missing keys, idxmin is that of the first partition, and sums so far are missing after a partition "
        "without numbers. It does not find a key that has a suffix after a merge. pandas' combine_first cuts "
        "fractions if the other partition has no rows.",
        upstream=(
            "cudf-floor-division",
            "dask-length-of-a-partition",
            "dask-filter-by-a-conversion",
            "dask-columns-of-levels",
            "dask-values-of-columns",
            "dask-rows-of-concatenated-columns",
            "dask-idxmin-of-column-levels",
            "dask-lengths-of-files",
            "dask-rows-of-an-index-of-files",
            "dask-missing-values-of-sorted-rows",
            "dask-merges-after-merges",
            "dask-sent-by-index",
            "dask-all-categories",
            "dask-single-partitions",
            "dask-suffixes-of-keys",
            "dask-labels-of-groups",
            "dask-covariances-of-groups",
            "dask-missing-keys",
            "dask-sums-after-missing-values",
            "pandas-combine-first-without-rows",
        ),
        test="switch/test_values_as_pandas.py::test_values_are_those_of_pandas",
    ),
    Patch(
        "mixed operands",
        (
            _code("dask.array.core:elemwise", "mixed_operands:elemwise"),  # and the quotients of NumPy
            *(
                _code(f"dask.array.{name}", "mixed_operands:add_products")  # and its dtypes
                for name in ("routines:tensordot", "routines:matmul", "einsumfuncs:einsum")
            ),
            *(
                _code(f"dask.array.{name}", "mixed_operands:check_arrays")
                for name in (
                    "core:concatenate",
                    "core:stack",
                    "linalg:solve_triangular",
                    "routines:searchsorted",
                )
            ),
        ),
        reason="An operation on a NumPy and a CuPy collection fails only when it is computed, in a task, with an error "
        "that names neither of them. Dask computes da.multiply(x, y, dtype=float) in the dtype of x and y, and adds "
        "products of booleans and small integers as large ones.",
        upstream=("dask-mixed-operands", "dask-dtype-of-a-ufunc", "dask-products-of-booleans"),
        test="switch/test_operand_placement.py::"
        "test_two_places_in_one_operation_are_refused_by_name_of_the_parameter_too",
    ),
    Patch(
        "user functions",
        (
            _code("dask.array.core:map_blocks", "user_functions:map_user_function"),
            _code("dask.array:apply_gufunc", "user_functions:apply_gufunc"),
            _code("dask.dataframe.dask_expr._collection:map_partitions", "user_functions:map_user_function"),
        ),
        reason="A function for NumPy may return a NumPy array for a CuPy block, or the user may give NumPy metadata "
        "for CuPy blocks. The blocks then do not match the metadata, and the next operation fails.",
        upstream=("dask-map-blocks-checks-meta",),
        test="switch/test_user_functions.py::test_blocks_are_where_the_metadata_says",
    ),
    Patch(
        "computation",
        (
            _code("dask.base:compute", "computation:compute"),  # explains mixed operands, too
            _code("dask.base:collections_to_expr", "computation:collections_to_expr"),
            _attribute("dask.array:Array.__array__", "computation:to_numpy"),
            _attribute("dask.dataframe.dask_expr:FrameBase.__array__", "computation:to_numpy"),
        ),
        reason="A Client receives the graph of a computation, not its collections. Two decisions must be made before "
        "the graph is built: whether a result fits in the memory of the kernel's GPU, and the conversion of results to "
        "the host. The other changes are in the client class KernelClient. np.asarray(x) computes x, and CuPy and cuDF "
        "refuse to convert the result; the patch converts each block on its worker.",
        upstream=("dask-client-sees-collections", "https://github.com/dask/dask/issues/5714"),
        test="switch/test_computing.py::test_what_does_not_fit_is_refused_with_its_size_and_nothing_of_it_stays",
    ),
    Patch(
        "storing of arrays",
        (
            _code("dask.array:store", "arrays.storing:store"),
            _attribute("dask.array.core:_write_dask_to_existing_zarr", "arrays.storing:to_existing_zarr"),
            _code("dask.array:from_array", "arrays.operand_placement:create_array"),  # places plain data, too
        ),
        reason="da.store(x, target) sends copies of the target to the workers. Into a NumPy array, or a Zarr array in "
        "memory, it therefore stores nothing, without an error. An open HDF5 file cannot be sent at all, neither to "
        "read nor to write.",
        upstream=("dask-store-into-memory", "dask-open-hdf5-file"),
        test="switch/test_storing.py::test_targets_in_memory_get_the_values",
        on_cpu=True,
    ),
    Patch(
        "estimators of dask-ml",
        (_code("dask_ml.wrappers:_get_output_dask_ar_meta_for_estimator", "user_functions:estimator_metadata"),),
        module="dask_ml.wrappers",
        reason="dask-ml calls a fitted estimator with an array like the metadata, in the kernel. Estimators of "
        "scikit-learn refuse an array of CuPy.",
        upstream=("dask-ml-estimator-metadata",),
        test="switch/test_libraries.py::test_estimators_predict_for_arrays_on_gpus",
    ),
    Patch(
        "filters of dask-image",
        tuple(
            _code(f"dask_image.ndfilters._conv:{name}", "user_functions:filter_image")
            for name in ("convolve", "correlate")
        ),
        module="dask_image.ndfilters._conv",
        reason="dask-image refuses weights of NumPy for an image on GPUs.",
        upstream=("dask-image-weights",),
        test="switch/test_libraries.py::test_weights_of_an_image_are_where_it_is",
    ),
    Patch(
        "blocks in delayed functions",
        (Change("cupy:ndarray.__array__", "jupyter_gpudask.fallback.cupy_arrays:to_numpy"),),
        process="worker",
        module="cupy",
        reason="CuPy refuses to convert a block in np.asarray. A function of dask.delayed may have side effects, so it "
        "cannot run again on the host.",
        upstream=("cupy-implicit-conversion",),
        test="fallback/test_host_fallback.py::test_a_delayed_function_of_the_user_may_convert_its_blocks",
    ),
    Patch(
        "NaN in sorts",
        tuple(
            Change(f"cupy:ndarray.{name}", f"jupyter_gpudask.fallback.cupy_arrays:{wrapper}")
            for name, wrapper in {
                "sort": "sort",
                "argsort": "indices",
                "partition": "partition",
                "argpartition": "indices",
            }.items()
        ),
        process="worker",
        module="cupy",
        reason="CuPy sorts NaN with a sign, such as 0 / 0 on a GPU, before all numbers: medians, da.unique, da.isin "
        "and da.topk differ. In long arrays with NaN its partition, by which da.topk selects, leaves any "
        "order.",
        upstream=("cupy-sort-of-nan",),
        test="switch/test_all_chunks.py::test_nan_of_both_signs_is_sorted_last",
    ),
    Patch(
        "categories of several partitions",
        (_code("dask_cudf.backends:concat_cudf", "frames.categories:concatenate"),),
        process="worker",
        module="dask_cudf.backends",
        reason="cuDF drops the order of categories when it concatenates dataframes, so that comparisons, minima and "
        "merges of the result fail. A Series gets the categories of its first part only, and so other values. Columns "
        "lose their name.",
        upstream=("cudf-concatenated-categories",),
        test="switch/test_categories.py::test_concatenated_categories_are_those_of_pandas",
    ),
    Patch(
        "interruption of tasks",
        (Change("distributed.worker:_run_task_simple", "jupyter_gpudask.worker.interruption:run_task"),),
        process="worker",
        reason="Dask does not stop a running task when it is cancelled.",
        upstream=("distributed-interrupt-tasks",),
        test="scheduler/test_cells.py::test_a_worker_computes_on_after_interrupts_at_any_depth",
    ),
    Patch(
        "guard of the dashboard",
        (Change("distributed.node:RoutingApplication", wrapper="", how="value"),),
        process="supervisor",
        reason="Dask's dashboard responds to everyone who can reach its port, including other users of the machine.",
        upstream=("distributed-open-dashboard",),
        test="supervisor/test_dashboard.py::test_a_guarded_dashboard_answers_only_who_knows_its_secret",
    ),
)
