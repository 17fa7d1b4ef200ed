"""Pairs in Parquet tables, as Hugging Face datasets and pandas write them; read in batches."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headway.data.json_files import Pair, PairKeys, extract_pair
from headway.errors import HeadwayError

BATCH_ROWS = 1024


def read_parquet(path: str, keys: PairKeys) -> Iterator[Pair]:
    """The pairs of a Parquet table: of two columns of text, or of one column "translation" with both."""
    with open_parquet(path) as file:
        names = parquet_keys(file)
        wanted = {name for pair in keys.candidates() for name in pair}
        inside = "translation." if has_translation(file) else ""
        columns = [f"{inside}{name}" for name in names if name in wanted] or None
        number = 0
        try:
            for batch in file.iter_batches(BATCH_ROWS, columns=columns):
                for value in batch.to_pylist():
                    number += 1
                    source, target = extract_pair(value, keys, f"{path}, row {number}")
                    yield " ".join(source.splitlines()), " ".join(target.splitlines())
        except (OSError, ValueError) as error:  # what pyarrow raises for damaged pages
            raise HeadwayError(f"{path}, after row {number:,}: the table is damaged: {error}") from None


def open_parquet(path: str) -> Any:
    """A pyarrow.parquet.ParquetFile."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise HeadwayError(
            f"{path}: reading Parquet tables needs pyarrow. Install it with: pip install 'headway[parquet]'"
        ) from None
    refuse_pipe(path)
    try:
        return pyarrow.parquet.ParquetFile(path)
    except (OSError, ValueError) as error:
        raise HeadwayError(f"{path} is no Parquet table: {error}") from None


def refuse_pipe(path: str) -> None:
    if not Path(path).is_file():
        raise HeadwayError(f"{path}: a Parquet table is read from its end, so it cannot come through a pipe.")


def has_translation(file: Any) -> bool:
    """Whether both sides are fields of a column "translation"."""
    import pyarrow

    schema = file.schema_arrow
    return "translation" in schema.names and pyarrow.types.is_struct(schema.field("translation").type)


def parquet_keys(file: Any) -> list[str]:
    """The names of the columns, or of the fields of "translation"."""
    schema = file.schema_arrow
    if has_translation(file):
        return [field.name for field in schema.field("translation").type]
    return list(schema.names)
