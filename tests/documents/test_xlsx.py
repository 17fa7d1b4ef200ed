"""Excel workbooks, written and read again by openpyxl."""

import io
import zipfile
from pathlib import Path

import openpyxl
import pytest
from openpyxl.cell.rich_text import CellRichText, TextBlock
from openpyxl.cell.text import InlineFont
from openpyxl.chart import BarChart, Reference
from openpyxl.worksheet.table import Table

from documents.office_files import unpacked
from documents.speakers import backwards, fixed, louder, same
from headway.documents import DocumentCounts, TranslateSegments
from headway.documents.xlsx import translate_bytes
from headway.errors import HeadwayError


def make_workbook(formula: str = "=B2*2") -> bytes:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = "Prices"
    sheet.append(["Item", "Price", "Twice"])
    sheet.append(["Red dog", 12.5, formula])
    sheet.append(["Two\nlines", 3, "=B3*2"])
    sheet["E1"] = CellRichText("A ", TextBlock(InlineFont(b=True), "big"), " house")
    sheet["E2"] = "Red dog"
    sheet["E3"] = "x < y & z"
    sheet.add_table(Table(displayName="Goods", ref="A1:C3"))
    chart = BarChart()
    chart.title = "Prices of goods"
    chart.add_data(Reference(sheet, min_col=2, min_row=1, max_row=3), titles_from_data=True)
    sheet.add_chart(chart, "G1")
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def translated(data: bytes, translate: TranslateSegments) -> tuple[bytes, DocumentCounts]:
    return translate_bytes(data, "a.xlsx", translate)


def test_cells_headers_and_charts_are_translated() -> None:
    new, counts = translated(make_workbook(), backwards)
    assert counts.warnings == []
    book = openpyxl.load_workbook(io.BytesIO(new), rich_text=True)
    sheet = book["Prices"]
    rows = [[cell.value for cell in row] for row in sheet["A1:C3"]]
    assert rows == [["ITEM", "PRICE", "TWICE"], ["DOG RED", 12.5, "=B2*2"], ["TWO\nLINES", 3, "=B3*2"]]
    assert [column.name for column in sheet.tables["Goods"].tableColumns] == ["ITEM", "PRICE", "TWICE"]
    rich = sheet["E1"].value
    assert str(rich) == "HOUSE BIG A"
    assert [str(part) for part in rich if isinstance(part, TextBlock) and part.font.b] == ["BIG"]
    assert sheet["E3"].value == "Z & Y < X"
    assert b"GOODS OF PRICES" in b"".join(unpacked(new).values())


def test_what_does_not_change_keeps_its_bytes() -> None:
    data = make_workbook()
    new, counts = translated(data, same)
    assert unpacked(new) == unpacked(data)
    assert counts.segments == counts.translated
    changed = {name for name, part in unpacked(translated(data, louder)[0]).items() if part != unpacked(data)[name]}
    assert changed == {"xl/worksheets/sheet1.xml", "xl/tables/table1.xml", "xl/charts/chart1.xml"}


def test_headers_stay_where_formulas_name_them() -> None:
    new, _ = translated(make_workbook("=Goods[[#This Row],[Price]]*2"), louder)
    sheet = openpyxl.load_workbook(io.BytesIO(new))["Prices"]
    assert [cell.value for cell in sheet[1]][:3] == ["Item", "Price", "Twice"]
    assert [column.name for column in sheet.tables["Goods"].tableColumns] == ["Item", "Price", "Twice"]
    assert sheet["A2"].value == "RED DOG"


def test_headers_that_would_be_equal_stay() -> None:
    new, _ = translated(make_workbook(), fixed("Same"))
    sheet = openpyxl.load_workbook(io.BytesIO(new))["Prices"]
    assert [cell.value for cell in sheet[1]][:3] == ["Item", "Price", "Twice"]
    assert sheet["A2"].value == "Same"


def test_strings_in_cells_and_prefixes() -> None:
    """Other programs write strings into the cells, or name the namespace."""
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    sheet = (
        f'<x:worksheet xmlns:x="{main}"><x:sheetData><x:row><x:c t="inlineStr"><x:is><x:t>one dog</x:t></x:is></x:c>'
        '<x:c t="inlineStr"><x:is><x:r><x:rPr><x:b/></x:rPr><x:t>a\nb</x:t></x:r><x:r><x:t> c</x:t></x:r>'
        "<x:rPh><x:t>guide</x:t></x:rPh></x:is></x:c></x:row></x:sheetData></x:worksheet>"
    )
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
        archive.writestr("xl/worksheets/sheet1.xml", sheet)
        archive.writestr("xl/sharedStrings.xml", f'<sst xmlns="{main}"><si><t> two </t></si><si><t>12</t></si></sst>')
    parts = unpacked(translated(out.getvalue(), louder)[0])
    assert (
        parts["xl/sharedStrings.xml"] == f'<sst xmlns="{main}"><si><t> TWO </t></si><si><t>12</t></si></sst>'.encode()
    )
    new = parts["xl/worksheets/sheet1.xml"].decode()
    preserve = '<x:t xml:space="preserve">'
    assert "<x:is><x:t>ONE DOG</x:t></x:is>" in new
    assert f"<x:r><x:rPr><x:b/></x:rPr>{preserve}A</x:t></x:r><x:r><x:rPr><x:b/></x:rPr>{preserve}\n</x:t></x:r>" in new
    assert "<x:rPh><x:t>guide</x:t></x:rPh></x:is>" in new


def test_other_archives_are_refused(tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.txt", "x")
    with pytest.raises(HeadwayError, match="is not a valid .xlsx document: it has no xl/workbook.xml"):
        translated(out.getvalue(), louder)
