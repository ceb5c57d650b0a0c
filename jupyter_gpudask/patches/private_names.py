"""The private names of Dask that this package uses, by module; `make fix` writes this file."""

PRIVATE_NAMES = {
    "dask._collections": "new_collection",
    "dask._expr": "Expr FinalizeCompute HLGExpr LLGExpr _ExprSequence _HLGExprSequence",
    "dask._task_spec": (
        "Alias DataNode DependenciesMapping Dict GraphNode GraphNode.fuse List NestedContainer Set Task TaskRef Tuple "
        "_execute_subgraph _identity_cast convert_legacy_graph cull fuse_linear_task_spec parse_input"
    ),
    "dask.array._shuffle": "_calculate_new_chunksizes _getitem",
    "dask.array.linalg": "_wrapped_qr",
    "dask.array.optimization": "_optimize_slices",
    "dask.array.percentile": "_percentile",
    "dask.array.random": "_apply_random _choice_validate_params",
    "dask.array.reductions": "_nanargmax _nanargmin",
    "dask.array.routines": "_block_hist _block_histogramdd_multiarg _block_histogramdd_rect",
    "dask.array.wrap": "_broadcast_trick_inner _broadcast_trick_inner.func",
    "dask.dataframe.dask_expr._accessor": (
        "FunctionMap FunctionMap._parameters FunctionMap.operation FunctionMapIndex PropertyMap "
        "PropertyMap._parameters PropertyMap.operation PropertyMapIndex"
    ),
    "dask.dataframe.dask_expr._backends": "ToPandasBackend dataframe_creation_dispatch",
    "dask.dataframe.dask_expr._concat": "Concat StackPartition StackPartitionInterleaved",
    "dask.dataframe.dask_expr._cumulative": "CumProd CumSum CumulativeAggregations TakeLast TakeLast.operation",
    "dask.dataframe.dask_expr._describe": "DescribeNumeric",
    "dask.dataframe.dask_expr._expr": (
        "Add And And.operation AsType Assign Assign.operation AssignAlign Between Blockwise ClearDivisions "
        "ColumnsSetter CombineFirst CombineFirstAlign Diff Div Drop DropnaSeries Elemwise Eval Expr Fillna Filter "
        "FloorDiv Fused Head Index Isin Isin._parameters MapPartitions Mask MaskAlign MethodOperator "
        "MethodOperatorAlign Mod Mul NotNull OpAlignPartitions Or Or.operation Pow Projection Query Replace ResetIndex "
        "Round Shift ShiftIndex Sqrt Sub ToBackend ToDatetime ToDatetime.operation ToFrame ToFrameIndex UFuncAlign "
        "UFuncElemwise Where WhereAlign determine_column_projection rewrite_filters"
    ),
    "dask.dataframe.dask_expr._groupby": (
        "Corr Cov DecomposableGroupbyAggregation GetGroup GroupByBFill GroupByBase GroupByCumprod GroupByCumsum "
        "GroupByFFill GroupByTransform GroupbyAggregation Head IdxMax IdxMax.groupby_chunk IdxMin Mean Prod "
        "SingleAggregation Size Std Sum Var groupby_slice_transform"
    ),
    "dask.dataframe.dask_expr._merge": "BroadcastJoin JoinRecursive Merge",
    "dask.dataframe.dask_expr._quantile": "SeriesQuantile",
    "dask.dataframe.dask_expr._reductions": (
        "All Any Corr Cov CustomReduction DropDuplicates IdxMax IdxMin IdxMin.reduction_aggregate Max Min "
        "Min.reduction_chunk Mode Mode.reduction_aggregate NLargest NSmallest NSmallest.reduction_aggregate "
        "NSmallest.reduction_chunk Prod Reduction Sum Unique ValueCounts Var"
    ),
    "dask.dataframe.dask_expr._repartition": (
        "Repartition RepartitionToFewer RepartitionToFewer._compute_partition_boundaries"
    ),
    "dask.dataframe.dask_expr._rolling": (
        "RollingAggregation RollingReduction RollingReduction._parameters _rolling_agg"
    ),
    "dask.dataframe.dask_expr._shuffle": (
        "AssignPartitioningIndex AssignPartitioningIndex.operation BaseSetIndexSortValues RearrangeByColumn SetIndex "
        "SetIndex._parameters SetIndexBlockwise SetPartition Shuffle ShuffleBase SimpleShuffle SortIndexBlockwise "
        "SortValues SortValuesBlockwise TaskShuffle _SetPartitionsPreSetIndex _get_divisions _select_columns_or_index"
    ),
    "dask.dataframe.dask_expr._str_accessor": "CatBlockwise CatBlockwise.operation SplitMap",
    "dask.dataframe.dask_expr._util": "_tokenize_partial",
    "dask.dataframe.groupby": (
        "_apply_func_to_column _compute_sum_of_squares _finalize_std _finalize_var _groupby_raise_unaligned"
    ),
    "dask.dataframe.indexing": "_maybe_partial_time_string",
    "dask.dataframe.tseries.resample": "ResampleAggregation._parameters",
    "distributed.client": "_get_global_client _set_global_client",
    "distributed.comm.tcp": "_close_comm",
    "distributed.scheduler": "_cull _materialize_graph",
    "distributed.threadpoolexecutor": "_worker",
}
