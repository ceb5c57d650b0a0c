"""The parameters of each function that a patch changes, in the versions of the libraries that were tested."""

PARAMETERS = {
    "concurrent.futures:ThreadPoolExecutor.submit": "self fn *args **kwargs",
    "dask._collections:new_collection": "expr",
    "dask.array._reductions_generic:partial_reduce": "func x split_every keepdims dtype name reduced_meta",
    "dask.array.backends:array_creation_dispatch.register_backend": "name backend",
    "dask.array.blockwise:blockwise": (
        "func out_ind *args name token dtype adjust_chunks new_axes align_arrays concatenate meta **kwargs"
    ),
    "dask.array.core:_write_dask_to_existing_zarr": "url arr region zarr_mem_store_types compute return_stored",
    "dask.array.core:apply_infer_dtype": "func args kwargs funcname suggest_dtype nout",
    "dask.array.core:concatenate": "seq axis allow_unknown_chunksizes",
    "dask.array.core:elemwise": "op *args out where dtype name **kwargs",
    "dask.array.core:map_blocks": "func *args name token dtype chunks drop_axis new_axis enforce_ndim meta **kwargs",
    "dask.array.core:stack": "seq axis allow_unknown_chunksizes",
    "dask.array.einsumfuncs:einsum": "*operands dtype optimize split_every **kwargs",
    "dask.array.linalg:solve_triangular": "a b lower",
    "dask.array.overlap:overlap": "x depth boundary allow_rechunk",
    "dask.array.random:Generator.choice": "self a size replace p axis shuffle chunks",
    "dask.array.random:Generator.permutation": "self x",
    "dask.array.random:RandomState.choice": "self a size replace p chunks",
    "dask.array.random:RandomState.permutation": "self x",
    "dask.array.random:RandomState.seed": "self seed",
    "dask.array.random:_wrap_func": "rng funcname *args size chunks extra_chunks **kwargs",
    "dask.array.reductions:arg_reduction": "x chunk combine agg axis keepdims split_every out",
    "dask.array.reductions:reduction": "x chunk aggregate axis keepdims dtype split_every combine name out concatenate "
    "output_size meta weights",
    "dask.array.routines:matmul": "a b",
    "dask.array.routines:searchsorted": "a v side sorter",
    "dask.array.routines:tensordot": "lhs rhs axes",
    "dask.array.utils:compute_meta": "func _dtype *args **kwargs",
    "dask.array:Array.__array__": "self dtype copy **kwargs",
    "dask.array:Array.__new__": "cls dask name chunks dtype meta shape",
    "dask.array:Array.__getitem__": "self index",
    "dask.array:Array.__setitem__": "self key value",
    "dask.array:Array.astype": "self dtype **kwargs",
    "dask.array:angle": "x deg",
    "dask.array:apply_gufunc": (
        "func signature *args axes axis keepdims output_dtypes output_sizes vectorize allow_rechunk meta **kwargs"
    ),
    "dask.array:asanyarray": "a dtype order like inline_array",
    "dask.array:asarray": "a allow_unknown_chunksizes dtype order like **kwargs",
    "dask.array:coarsen": "reduction x axes trim_excess **kwargs",
    "dask.array:diag": "v k",
    "dask.array:diagonal": "a offset axis1 axis2",
    "dask.array:eye": "N chunks M k dtype",
    "dask.array:frexp": "x",
    "dask.array:from_array": "x chunks name lock asarray fancy getitem meta inline_array",
    "dask.array:from_delayed": "value shape dtype meta name",
    "dask.array:from_npy_stack": "dirname mmap_mode",
    "dask.array:insert": "arr obj values axis",
    "dask.array:linspace": "start stop num endpoint retstep chunks dtype",
    "dask.array:histogram": "a bins range normed weights density",
    "dask.array:histogramdd": "sample bins range normed weights density",
    "dask.array:median": "a axis keepdims out",
    "dask.array:nanmedian": "a axis keepdims out",
    "dask.array:nanmean": "a axis dtype keepdims split_every out",
    "dask.array:nanprod": "a axis dtype keepdims split_every out",
    "dask.array:nanstd": "a axis dtype keepdims ddof split_every out",
    "dask.array:nansum": "a axis dtype keepdims split_every out",
    "dask.array:nanvar": "a axis dtype keepdims ddof split_every out",
    "dask.array:modf": "x",
    "dask.array:percentile": "a q method internal_method **kwargs",
    "dask.array:quantile": "a q axis out overwrite_input method keepdims weights interpolation",
    "dask.array:rechunk": "x chunks threshold block_size_limit balance method",
    "dask.array:store": "sources targets lock regions compute return_stored load_stored **kwargs",
    "dask.array:unique": "ar return_index return_inverse return_counts",
    "dask.bag:Bag.to_dataframe": "self meta columns optimize_graph",
    "dask.base:collections_to_expr": "collections optimize_graph",
    "dask.base:compute": "*args traverse optimize_graph scheduler get **kwargs",
    "dask.config:refresh": "config defaults paths env | config defaults **kwargs",
    "dask.config:update": "old new priority defaults",
    "dask.dataframe.dask_expr._categorical:CategoricalAccessor.as_known": "self **kwargs",
    "dask.dataframe.dask_expr._categorical:CategoricalAccessor.remove_unused_categories": "self",
    "dask.dataframe.dask_expr._collection:map_partitions": (
        "func *args meta enforce_metadata transform_divisions clear_divisions align_dataframes parent_meta "
        "required_columns **kwargs"
    ),
    "dask.dataframe.dask_expr._expr:emulate": "func *args udf **kwargs",
    "dask.dataframe.dask_expr._groupby:_meta_apply_transform": "obj grp_func",
    "dask.dataframe.dask_expr._indexing:LocIndexer._loc": "self iindexer cindexer",
    "dask.dataframe.dask_expr._expr:MaybeAlignPartitions._lower": "self",
    "dask.dataframe.dask_expr._expr:OpAlignPartitions._lower": "self",
    "dask.dataframe.dask_expr._merge:Merge._simplify_up": "self parent dependents",
    "dask.dataframe.dask_expr._merge:Merge._on_condition_already_partitioned": "self expr on",
    "dask.dataframe.dask_expr._shuffle:RearrangeByColumn._lower": "self",
    "dask.dataframe.dask_expr.io.bag:to_bag": "df index format",
    "dask.dataframe.dask_expr._expr:Expr._filter_passthrough_available": "self parent dependents",
    "dask.dataframe.dask_expr._expr:plain_column_projection": "expr parent dependents additional_columns",
    "dask.dataframe.dask_expr.io.io:FromPandas._get_lengths": "self",
    "dask.dataframe.dask_expr.io.records:to_records": "df",
    "dask.dataframe.dask_expr:FrameBase.__dask_postpersist__": "self",
    "dask.dataframe.dask_expr:FrameBase.__array__": "self dtype **kwargs",
    "dask.dataframe.dask_expr:FrameBase.to_dask_array": "self lengths meta optimize **optimize_kwargs",
    "dask.dataframe:DataFrame.iterrows": "self",
    "dask.dataframe:Series.__iter__": "self",
    "dask.dataframe:DataFrame.itertuples": "self index name",
    "dask.dataframe:concat": "dfs axis join ignore_unknown_divisions ignore_order interleave_partitions **kwargs",
    "dask.dataframe:from_array": "arr chunksize columns meta",
    "dask.dataframe:from_dask_array": "x columns index meta",
    "dask.dataframe:from_delayed": "dfs meta divisions prefix verify_meta",
    "dask.dataframe:from_map": "func *iterables args meta divisions label enforce_metadata **kwargs",
    "dask.dataframe:from_pandas": "data npartitions sort chunksize",
    "dask.dataframe:read_sql_query": (
        "sql con index_col divisions npartitions limits bytes_per_chunk head_rows meta engine_kwargs **kwargs"
    ),
    "dask.dataframe:repartition": "df divisions force",
    "dask.dataframe.io.csv:to_csv": (
        "df filename single_file encoding mode name_function compression compute scheduler storage_options "
        "header_first_partition_only compute_kwargs **kwargs"
    ),
    "dask.dataframe.io.hdf:to_hdf": (
        "df path key mode append scheduler name_function compute lock dask_kwargs **kwargs"
    ),
    "dask.dataframe.io.sql:to_sql": (
        "df name uri schema if_exists index index_label chunksize dtype method compute parallel engine_kwargs"
    ),
    "dask.dataframe:to_parquet": (
        "df path compression write_index append overwrite ignore_divisions partition_on storage_options "
        "custom_metadata write_metadata_file compute compute_kwargs schema name_function filesystem engine **kwargs"
    ),
    "dask.dataframe.backends:dataframe_creation_dispatch.register_backend": "name backend",
    "dask.dataframe.dask_expr.datasets:timeseries": "start end freq partition_freq dtypes seed **kwargs",
    "dask.local:get_async": (
        "submit num_workers dsk result cache get_id rerun_exceptions_locally pack_exception raise_exception callbacks "
        "dumps loads chunksize **kwargs"
    ),
    "dask_cudf.backends:concat_cudf": "dfs axis join uniform filter_warning sort ignore_index **kwargs",
    "dask_image.ndfilters._conv:convolve": "image weights mode cval origin",
    "dask_image.ndfilters._conv:correlate": "image weights mode cval origin",
    "dask_ml.wrappers:_get_output_dask_ar_meta_for_estimator": "model_fn estimator input_dask_ar",
    "distributed.worker:_run_task_simple": "task data time_delay",
    "threading:Thread.start": "self",
    "multiprocessing.pool:Pool._map_async": "self func iterable mapper chunksize callback error_callback",
    "multiprocessing.pool:Pool.apply_async": "self func args kwds callback error_callback",
    "multiprocessing.pool:Pool.imap": "self func iterable chunksize",
    "multiprocessing.pool:Pool.imap_unordered": "self func iterable chunksize",
}
"""By target, in the format of `patch.parameters_of`; bars separate those of different versions."""
