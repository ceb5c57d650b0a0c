"""How tables and lines of `%gpudask` look in a notebook."""

from jupyter_gpudask.magics.commands.doctor import DoctorView, Finding
from jupyter_gpudask.magics.commands.free import FreeView
from jupyter_gpudask.magics.views.base import html_table


def test_a_quantity_of_a_total_is_not_broken_into_two_lines():
    table = html_table(("memory",), [("1.0 of 140 GiB",), ("20 MiB of 140 GiB",), ("pid 8 (2 GiB), pid 9",)])
    assert ">1.0&nbsp;of&nbsp;140&nbsp;GiB<" in table
    assert ">20&nbsp;MiB&nbsp;of&nbsp;140&nbsp;GiB<" in table
    assert ">pid&nbsp;8 (2&nbsp;GiB), pid&nbsp;9<" in table


def test_a_table_is_at_the_left_in_a_widget_too():
    assert html_table(("memory",), [("1 GiB",)]).startswith('<table style="border-collapse: collapse; margin: 0">')


def test_the_name_of_a_check_is_not_broken_at_its_hyphen():
    view = DoctorView([Finding("dask-cuda", "ok", "26.10.00")])
    assert '<span style="white-space: nowrap">dask-cuda</span>' in view.to_html()


def test_freed_memory_is_shown_in_the_font_of_other_outputs():
    html = FreeView({"GPU 0": 2**20, "kernel": 0}, (), pool=False).to_html()
    assert "<pre" not in html
    assert ">1.0 MiB of device memory freed.\n  GPU 0: 1.0 MiB<" in html
