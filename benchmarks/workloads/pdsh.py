"""The 22 queries of PDS-H, written for `dask.dataframe`.

Each takes a reader of tables (`read("lineitem")` is a dataframe) and returns the computed answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pandas import Timestamp

if TYPE_CHECKING:
    from collections.abc import Callable

    Read = Callable[[str], Any]


def _revenue(frame: Any) -> Any:
    return frame.assign(revenue=frame.l_extendedprice * (1 - frame.l_discount))


def _largest(frame: Any, by: list[str], ascending: list[bool] | bool, number: int) -> Any:
    return frame.compute().sort_values(by, ascending=ascending).head(number).reset_index(drop=True)


def q1(read: Read) -> Any:
    lines = read("lineitem")
    lines = lines[lines.l_shipdate <= Timestamp(1998, 9, 2)]
    lines = lines.assign(disc_price=lines.l_extendedprice * (1 - lines.l_discount))
    lines = lines.assign(charge=lines.disc_price * (1 + lines.l_tax))
    sums = lines.groupby(["l_returnflag", "l_linestatus"]).agg(
        sum_qty=("l_quantity", "sum"),
        sum_base_price=("l_extendedprice", "sum"),
        sum_disc_price=("disc_price", "sum"),
        sum_charge=("charge", "sum"),
        avg_qty=("l_quantity", "mean"),
        avg_price=("l_extendedprice", "mean"),
        avg_disc=("l_discount", "mean"),
        count_order=("l_orderkey", "count"),
    )
    return sums.reset_index().compute().sort_values(["l_returnflag", "l_linestatus"])


def q2(read: Read) -> Any:
    part = read("part")
    part = part[(part.p_size == 15) & part.p_type.str.endswith("BRASS")]
    region = read("region")
    nations = read("nation").merge(region[region.r_name == "EUROPE"], left_on="n_regionkey", right_on="r_regionkey")
    suppliers = read("supplier").merge(nations, left_on="s_nationkey", right_on="n_nationkey")
    offers = read("partsupp").merge(part, left_on="ps_partkey", right_on="p_partkey")
    offers = offers.merge(suppliers, left_on="ps_suppkey", right_on="s_suppkey")
    cheapest = offers.groupby("p_partkey").ps_supplycost.min().reset_index()
    offers = offers.merge(cheapest, on=["p_partkey", "ps_supplycost"])
    offers = offers[["s_acctbal", "s_name", "n_name", "p_partkey", "p_mfgr", "s_address", "s_phone", "s_comment"]]
    return _largest(offers, ["s_acctbal", "n_name", "s_name", "p_partkey"], [False, True, True, True], 100)


def q3(read: Read) -> Any:
    day = Timestamp(1995, 3, 15)
    customer, orders, lines = read("customer"), read("orders"), read("lineitem")
    customer = customer[customer.c_mktsegment == "BUILDING"]
    orders, lines = orders[orders.o_orderdate < day], lines[lines.l_shipdate > day]
    joined = customer[["c_custkey"]].merge(
        orders[["o_orderkey", "o_custkey", "o_orderdate", "o_shippriority"]], left_on="c_custkey", right_on="o_custkey"
    )
    joined = _revenue(joined.merge(lines, left_on="o_orderkey", right_on="l_orderkey"))
    sums = joined.groupby(["l_orderkey", "o_orderdate", "o_shippriority"]).revenue.sum().reset_index()
    return _largest(sums, ["revenue", "o_orderdate"], [False, True], 10)


def q4(read: Read) -> Any:
    orders, lines = read("orders"), read("lineitem")
    orders = orders[(orders.o_orderdate >= Timestamp(1993, 7, 1)) & (orders.o_orderdate < Timestamp(1993, 10, 1))]
    late = lines[lines.l_commitdate < lines.l_receiptdate]
    joined = orders[["o_orderkey", "o_orderpriority"]].merge(
        late[["l_orderkey"]], left_on="o_orderkey", right_on="l_orderkey"
    )
    joined = joined[["o_orderkey", "o_orderpriority"]].drop_duplicates()
    return joined.groupby("o_orderpriority").o_orderkey.count().compute().sort_index().reset_index()


def q5(read: Read) -> Any:
    region, orders = read("region"), read("orders")
    orders = orders[(orders.o_orderdate >= Timestamp(1994, 1, 1)) & (orders.o_orderdate < Timestamp(1995, 1, 1))]
    nations = read("nation").merge(region[region.r_name == "ASIA"], left_on="n_regionkey", right_on="r_regionkey")
    suppliers = read("supplier").merge(nations, left_on="s_nationkey", right_on="n_nationkey")
    customers = read("customer")[["c_custkey", "c_nationkey"]]
    joined = customers.merge(orders[["o_orderkey", "o_custkey"]], left_on="c_custkey", right_on="o_custkey")
    joined = joined.merge(read("lineitem"), left_on="o_orderkey", right_on="l_orderkey")
    joined = joined.merge(
        suppliers[["s_suppkey", "s_nationkey", "n_name"]],
        left_on=["l_suppkey", "c_nationkey"],
        right_on=["s_suppkey", "s_nationkey"],
    )
    return _revenue(joined).groupby("n_name").revenue.sum().compute().sort_values(ascending=False).reset_index()


def q6(read: Read) -> Any:
    lines = read("lineitem")
    lines = lines[
        (lines.l_shipdate >= Timestamp(1994, 1, 1))
        & (lines.l_shipdate < Timestamp(1995, 1, 1))
        & (lines.l_discount >= 0.05)
        & (lines.l_discount <= 0.07)
        & (lines.l_quantity < 24)
    ]
    return (lines.l_extendedprice * lines.l_discount).sum().compute()


def q7(read: Read) -> Any:
    lines, nation = read("lineitem"), read("nation")
    lines = lines[(lines.l_shipdate >= Timestamp(1995, 1, 1)) & (lines.l_shipdate <= Timestamp(1996, 12, 31))]
    nation = nation[nation.n_name.isin(["FRANCE", "GERMANY"])][["n_nationkey", "n_name"]]
    suppliers = read("supplier").merge(nation, left_on="s_nationkey", right_on="n_nationkey")
    suppliers = suppliers[["s_suppkey", "n_name"]].rename(columns={"n_name": "supp_nation"})
    customers = read("customer").merge(nation, left_on="c_nationkey", right_on="n_nationkey")
    customers = customers[["c_custkey", "n_name"]].rename(columns={"n_name": "cust_nation"})
    orders = read("orders")[["o_orderkey", "o_custkey"]].merge(customers, left_on="o_custkey", right_on="c_custkey")
    joined = lines.merge(suppliers, left_on="l_suppkey", right_on="s_suppkey")
    joined = joined.merge(orders, left_on="l_orderkey", right_on="o_orderkey")
    joined = _revenue(joined[joined.supp_nation != joined.cust_nation])
    joined = joined.assign(l_year=joined.l_shipdate.dt.year)
    sums = joined.groupby(["supp_nation", "cust_nation", "l_year"]).revenue.sum().reset_index()
    return sums.compute().sort_values(["supp_nation", "cust_nation", "l_year"])


def q8(read: Read) -> Any:
    part, region, nation, orders = read("part"), read("region"), read("nation"), read("orders")
    part = part[part.p_type == "ECONOMY ANODIZED STEEL"][["p_partkey"]]
    orders = orders[(orders.o_orderdate >= Timestamp(1995, 1, 1)) & (orders.o_orderdate <= Timestamp(1996, 12, 31))]
    nations = nation.merge(region[region.r_name == "AMERICA"], left_on="n_regionkey", right_on="r_regionkey")
    customers = read("customer").merge(nations[["n_nationkey"]], left_on="c_nationkey", right_on="n_nationkey")
    suppliers = read("supplier")[["s_suppkey", "s_nationkey"]].merge(
        nation[["n_nationkey", "n_name"]], left_on="s_nationkey", right_on="n_nationkey"
    )
    lines = read("lineitem")[["l_orderkey", "l_partkey", "l_suppkey", "l_extendedprice", "l_discount"]]
    joined = part.merge(lines, left_on="p_partkey", right_on="l_partkey")
    joined = joined.merge(suppliers[["s_suppkey", "n_name"]], left_on="l_suppkey", right_on="s_suppkey")
    joined = joined.merge(
        orders[["o_orderkey", "o_custkey", "o_orderdate"]], left_on="l_orderkey", right_on="o_orderkey"
    )
    joined = joined.merge(customers[["c_custkey"]], left_on="o_custkey", right_on="c_custkey")
    joined = _revenue(joined).assign(o_year=joined.o_orderdate.dt.year)
    joined = joined.assign(brazil=joined.revenue.where(joined.n_name == "BRAZIL", 0.0))
    sums = joined.groupby("o_year")[["brazil", "revenue"]].sum().compute().sort_index().reset_index()
    sums["mkt_share"] = (sums.brazil / sums.revenue).round(2)
    return sums[["o_year", "mkt_share"]]


def q9(read: Read) -> Any:
    part = read("part")
    part = part[part.p_name.str.contains("green", regex=False)][["p_partkey"]]
    suppliers = read("supplier")[["s_suppkey", "s_nationkey"]].merge(
        read("nation")[["n_nationkey", "n_name"]], left_on="s_nationkey", right_on="n_nationkey"
    )
    offers = read("partsupp")[["ps_partkey", "ps_suppkey", "ps_supplycost"]]
    offers = part.merge(offers, left_on="p_partkey", right_on="ps_partkey")
    offers = offers.merge(suppliers[["s_suppkey", "n_name"]], left_on="ps_suppkey", right_on="s_suppkey")
    lines = read("lineitem")
    joined = lines.merge(offers, left_on=["l_partkey", "l_suppkey"], right_on=["ps_partkey", "ps_suppkey"])
    joined = joined.merge(read("orders")[["o_orderkey", "o_orderdate"]], left_on="l_orderkey", right_on="o_orderkey")
    joined = joined.assign(
        o_year=joined.o_orderdate.dt.year,
        amount=joined.l_extendedprice * (1 - joined.l_discount) - joined.ps_supplycost * joined.l_quantity,
    )
    sums = joined.groupby(["n_name", "o_year"]).amount.sum().reset_index().compute()
    return sums.sort_values(["n_name", "o_year"], ascending=[True, False])


def q10(read: Read) -> Any:
    orders, lines = read("orders"), read("lineitem")
    orders = orders[(orders.o_orderdate >= Timestamp(1993, 10, 1)) & (orders.o_orderdate < Timestamp(1994, 1, 1))]
    lines = lines[lines.l_returnflag == "R"]
    joined = orders[["o_orderkey", "o_custkey"]].merge(
        lines[["l_orderkey", "l_extendedprice", "l_discount"]], left_on="o_orderkey", right_on="l_orderkey"
    )
    sums = _revenue(joined).groupby("o_custkey").revenue.sum().reset_index()
    customers = read("customer").merge(
        read("nation")[["n_nationkey", "n_name"]], left_on="c_nationkey", right_on="n_nationkey"
    )
    joined = customers.merge(sums, left_on="c_custkey", right_on="o_custkey")
    joined = joined[["c_custkey", "c_name", "revenue", "c_acctbal", "n_name", "c_address", "c_phone", "c_comment"]]
    return joined.nlargest(20, "revenue").compute()


def q11(read: Read) -> Any:
    nation = read("nation")
    suppliers = read("supplier").merge(
        nation[nation.n_name == "GERMANY"], left_on="s_nationkey", right_on="n_nationkey"
    )
    offers = read("partsupp").merge(suppliers[["s_suppkey"]], left_on="ps_suppkey", right_on="s_suppkey")
    offers = offers.assign(value=offers.ps_supplycost * offers.ps_availqty)
    sums = offers.groupby("ps_partkey").value.sum().compute().reset_index()
    # The fraction is 0.0001 over the scale factor, of which the suppliers' number is ten thousandth.
    scale = len(read("supplier")) / 10_000
    return sums[sums.value > sums.value.sum() * 0.0001 / scale].sort_values("value", ascending=False)


def q12(read: Read) -> Any:
    lines = read("lineitem")
    lines = lines[
        lines.l_shipmode.isin(["MAIL", "SHIP"])
        & (lines.l_commitdate < lines.l_receiptdate)
        & (lines.l_shipdate < lines.l_commitdate)
        & (lines.l_receiptdate >= Timestamp(1994, 1, 1))
        & (lines.l_receiptdate < Timestamp(1995, 1, 1))
    ]
    orders = read("orders")[["o_orderkey", "o_orderpriority"]]
    joined = orders.merge(lines[["l_orderkey", "l_shipmode"]], left_on="o_orderkey", right_on="l_orderkey")
    high = joined.o_orderpriority.isin(["1-URGENT", "2-HIGH"])
    joined = joined.assign(high=high.astype("int64"), low=(~high).astype("int64"))
    return joined.groupby("l_shipmode")[["high", "low"]].sum().compute().sort_index().reset_index()


def q13(read: Read) -> Any:
    orders = read("orders")
    orders = orders[~orders.o_comment.str.contains("special.*requests")]
    joined = read("customer")[["c_custkey"]].merge(
        orders[["o_orderkey", "o_custkey"]], left_on="c_custkey", right_on="o_custkey", how="left"
    )
    counts = joined.groupby("c_custkey").o_orderkey.count().rename("c_count").reset_index()
    sums = counts.groupby("c_count").c_custkey.count().rename("custdist").reset_index().compute()
    return sums.sort_values(["custdist", "c_count"], ascending=False)


def q14(read: Read) -> Any:
    lines = read("lineitem")
    lines = lines[(lines.l_shipdate >= Timestamp(1995, 9, 1)) & (lines.l_shipdate < Timestamp(1995, 10, 1))]
    lines = lines[["l_partkey", "l_extendedprice", "l_discount"]]
    joined = _revenue(lines.merge(read("part")[["p_partkey", "p_type"]], left_on="l_partkey", right_on="p_partkey"))
    promo = joined.revenue.where(joined.p_type.str.startswith("PROMO"), 0.0)
    return (100 * promo.sum() / joined.revenue.sum()).compute()


def q15(read: Read) -> Any:
    lines = read("lineitem")
    lines = lines[(lines.l_shipdate >= Timestamp(1996, 1, 1)) & (lines.l_shipdate < Timestamp(1996, 4, 1))]
    sums = _revenue(lines).groupby("l_suppkey").revenue.sum().rename("total_revenue").reset_index()
    best = sums[sums.total_revenue == sums.total_revenue.max()]
    joined = read("supplier").merge(best, left_on="s_suppkey", right_on="l_suppkey")
    return joined[["s_suppkey", "s_name", "s_address", "s_phone", "total_revenue"]].compute().sort_values("s_suppkey")


def q16(read: Read) -> Any:
    part, suppliers = read("part"), read("supplier")
    part = part[
        (part.p_brand != "Brand#45")
        & ~part.p_type.str.startswith("MEDIUM POLISHED")
        & part.p_size.isin([49, 14, 23, 45, 19, 3, 36, 9])
    ]
    complaints = suppliers[suppliers.s_comment.str.contains("Customer.*Complaints")][["s_suppkey"]]
    offers = read("partsupp")[["ps_partkey", "ps_suppkey"]].merge(part, left_on="ps_partkey", right_on="p_partkey")
    offers = offers.merge(complaints, left_on="ps_suppkey", right_on="s_suppkey", how="left")
    offers = offers[offers.s_suppkey.isna()][["p_brand", "p_type", "p_size", "ps_suppkey"]].drop_duplicates()
    counts = offers.groupby(["p_brand", "p_type", "p_size"]).ps_suppkey.count().reset_index().compute()
    return counts.sort_values(["ps_suppkey", "p_brand", "p_type", "p_size"], ascending=[False, True, True, True])


def q17(read: Read) -> Any:
    part, lines = read("part"), read("lineitem")[["l_partkey", "l_quantity", "l_extendedprice"]]
    part = part[(part.p_brand == "Brand#23") & (part.p_container == "MED BOX")][["p_partkey"]]
    joined = part.merge(lines, left_on="p_partkey", right_on="l_partkey")
    means = joined.groupby("p_partkey").l_quantity.mean().rename("mean").reset_index()
    joined = joined.merge(means, on="p_partkey")
    return (joined[joined.l_quantity < 0.2 * joined["mean"]].l_extendedprice.sum() / 7).compute()


def q18(read: Read) -> Any:
    lines = read("lineitem")[["l_orderkey", "l_quantity"]]
    large = lines.groupby("l_orderkey").l_quantity.sum().rename("sum_qty").reset_index()
    large = large[large.sum_qty > 300]
    orders = read("orders")[["o_orderkey", "o_custkey", "o_orderdate", "o_totalprice"]]
    joined = orders.merge(large, left_on="o_orderkey", right_on="l_orderkey")
    joined = joined.merge(read("customer")[["c_custkey", "c_name"]], left_on="o_custkey", right_on="c_custkey")
    joined = joined[["c_name", "c_custkey", "o_orderkey", "o_orderdate", "o_totalprice", "sum_qty"]]
    return _largest(joined, ["o_totalprice", "o_orderdate"], [False, True], 100)


def q19(read: Read) -> Any:
    lines = read("lineitem")
    lines = lines[lines.l_shipmode.isin(["AIR", "AIR REG"]) & (lines.l_shipinstruct == "DELIVER IN PERSON")]
    lines = lines[["l_partkey", "l_quantity", "l_extendedprice", "l_discount"]]
    part = read("part")[["p_partkey", "p_brand", "p_container", "p_size"]]
    joined = lines.merge(part, left_on="l_partkey", right_on="p_partkey")

    def kind(brand: str, size: str, others: list[str], least: int, largest: int) -> Any:
        return (
            (joined.p_brand == brand)
            & joined.p_container.isin([f"{size} {other}" for other in others])
            & (joined.l_quantity >= least)
            & (joined.l_quantity <= least + 10)
            & (joined.p_size >= 1)
            & (joined.p_size <= largest)
        )

    joined = joined[
        kind("Brand#12", "SM", ["CASE", "BOX", "PACK", "PKG"], 1, 5)
        | kind("Brand#23", "MED", ["BAG", "BOX", "PKG", "PACK"], 10, 10)
        | kind("Brand#34", "LG", ["CASE", "BOX", "PACK", "PKG"], 20, 15)
    ]
    return _revenue(joined).revenue.sum().compute()


def q20(read: Read) -> Any:
    lines, part, nation = read("lineitem"), read("part"), read("nation")
    lines = lines[(lines.l_shipdate >= Timestamp(1994, 1, 1)) & (lines.l_shipdate < Timestamp(1995, 1, 1))]
    sums = lines.groupby(["l_partkey", "l_suppkey"]).l_quantity.sum().rename("sum_qty").reset_index()
    part = part[part.p_name.str.startswith("forest")][["p_partkey"]]
    offers = read("partsupp").merge(part, left_on="ps_partkey", right_on="p_partkey")
    offers = offers.merge(sums, left_on=["ps_partkey", "ps_suppkey"], right_on=["l_partkey", "l_suppkey"])
    offers = offers[offers.ps_availqty > 0.5 * offers.sum_qty][["ps_suppkey"]].drop_duplicates()
    suppliers = read("supplier").merge(
        nation[nation.n_name == "CANADA"][["n_nationkey"]], left_on="s_nationkey", right_on="n_nationkey"
    )
    joined = suppliers.merge(offers, left_on="s_suppkey", right_on="ps_suppkey")
    return joined[["s_name", "s_address"]].compute().sort_values("s_name")


def q21(read: Read) -> Any:
    lines, orders, nation = read("lineitem"), read("orders"), read("nation")
    lines = lines[["l_orderkey", "l_suppkey", "l_receiptdate", "l_commitdate"]]
    late = lines[lines.l_receiptdate > lines.l_commitdate][["l_orderkey", "l_suppkey"]]
    # Orders of more than one supplier, of which one alone was late.
    of_all = lines[["l_orderkey", "l_suppkey"]].drop_duplicates().groupby("l_orderkey").l_suppkey.count()
    of_late = late.drop_duplicates().groupby("l_orderkey").l_suppkey.count()
    of_all, of_late = of_all.rename("suppliers").reset_index(), of_late.rename("late").reset_index()
    suppliers = read("supplier").merge(
        nation[nation.n_name == "SAUDI ARABIA"][["n_nationkey"]], left_on="s_nationkey", right_on="n_nationkey"
    )
    joined = late.merge(suppliers[["s_suppkey", "s_name"]], left_on="l_suppkey", right_on="s_suppkey")
    joined = joined.merge(
        orders[orders.o_orderstatus == "F"][["o_orderkey"]], left_on="l_orderkey", right_on="o_orderkey"
    )
    joined = joined.merge(of_all[of_all.suppliers > 1], on="l_orderkey")
    joined = joined.merge(of_late[of_late.late == 1], on="l_orderkey")
    counts = joined.groupby("s_name").l_orderkey.count().rename("numwait").reset_index()
    return _largest(counts, ["numwait", "s_name"], [False, True], 100)


def q22(read: Read) -> Any:
    customers = read("customer")[["c_custkey", "c_phone", "c_acctbal"]]
    customers = customers.assign(cntrycode=customers.c_phone.str.slice(0, 2))
    customers = customers[customers.cntrycode.isin(["13", "31", "23", "29", "30", "18", "17"])]
    mean = customers[customers.c_acctbal > 0].c_acctbal.mean()
    customers = customers[customers.c_acctbal > mean]
    orders = read("orders")[["o_custkey"]].drop_duplicates()
    joined = customers.merge(orders, left_on="c_custkey", right_on="o_custkey", how="left")
    joined = joined[joined.o_custkey.isna()]
    sums = joined.groupby("cntrycode").agg(numcust=("c_acctbal", "count"), totacctbal=("c_acctbal", "sum"))
    return sums.compute().sort_index().reset_index()


QUERIES = {number: globals()[f"q{number}"] for number in range(1, 23)}
