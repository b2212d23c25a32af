"""Frames of a DataFrame, checked where they are met: kernels trust what a frame says.

A DataFrame of frames may come from anywhere (a broker, a table of someone else's), so each is held
to the same rules as one in a log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Row

from engine.errors import ContractViolation, UserError
from engine.log.frame_rules import FrameError, attribute_types, checked
from engine.log.whole_file import DAMAGED
from engine.stream.frame import ATTR_PREFIX, Frame
from engine.stream.value_rules import joined_type


def frames_of(site: str, rows: Sequence[Row], attributes: Mapping[str, str] | None) -> list[Frame]:
    """The frames of a site in the order of arrival.

    Args:
        site: of all.
        rows: ``payload``, ``first_arrival``, and where each lies (``file``, ``place``).
        attributes: the types that attributes are said to have; None: nothing is said.

    Raises:
        UserError: names a frame that breaks a rule, or is not what is said of it.
    """
    return [_frame(site, row, attributes) for row in sorted(rows, key=_place)]


def _place(row: Row) -> tuple[int, str, int, bytes]:
    if row.first_arrival is None or row.payload is None:
        raise UserError(
            f"site {row.site!r}: a frame without payload or first_arrival; leave it out"
        )
    return row.first_arrival, row.file, row.place, bytes(row.payload)


def _frame(site: str, row: Row, attributes: Mapping[str, str] | None) -> Frame:
    try:
        frame = checked(Frame.from_bytes(site, bytes(row.payload)))
        _check_said(frame, row.first_arrival, attributes or {})
    except (ContractViolation, FrameError, *DAMAGED) as error:
        raise UserError(
            f"site {site!r}: the frame of first_arrival {row.first_arrival} cannot be: {error}; "
            "mend it, or leave it out"
        ) from error
    return frame


def _check_said(frame: Frame, first_arrival: int, attributes: Mapping[str, str]) -> None:
    """Frames go by what their rows say, and results are typed by what is said of attributes: there
    a whole number may stand for a fraction, nothing else for anything.
    """
    if frame.first_arrival != first_arrival:
        raise FrameError(f"it begins at arrival {frame.first_arrival}")
    for column, found in attribute_types(frame.batch).items():
        name = column.removeprefix(ATTR_PREFIX)
        said = attributes.get(name)
        if column != name and said is not None and joined_type(said, found) != said:
            raise FrameError(f"attribute {name!r} is {found}, attributes= says {said}")
