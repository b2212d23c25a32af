"""What a sender of HL7 messages is answered: ACK with MSA and, for a refusal, ERR.

Original mode (MSH-15 and MSH-16 empty): one application acknowledgement, AA AE AR. Enhanced mode
(HL7 v2.5.1, section 2.9.2): what MSH-15 asks for as CA CE CR, and what MSH-16 asks for as AA AE AR.
"""

from __future__ import annotations

from typing import Final

from edge_agent.inputs.hl7.framing import END, START
from edge_agent.inputs.hl7.message import Message, Refused
from edge_agent.inputs.hl7.times import shown

_ASKED: Final = {"AL": (True, True), "NE": (False, False), "SU": (True, False), "ER": (False, True)}
"""HL7 table 0155: whether success is acknowledged, and whether a refusal is."""
_ECHO_MAX: Final = 300
"""So much of a field is sent back [characters]."""
_REASON_MAX: Final = 80


def answers(
    message: Message | None, refused: Refused | None, now_ns: int, number: int
) -> list[bytes]:
    """The acknowledgements of a message, framed.

    Args:
        message: None: not even its header could be read.
        refused: why it is not taken; None: its events are durable.
        now_ns: this device's wall clock.
        number: of the acknowledgement, for its own MSH-10.
    """
    code = "AA" if refused is None else refused.code
    codes = [code]
    if message is not None and (message.header.raw(15) or message.header.raw(16)):
        accept, application = message.header.raw(15), message.header.raw(16)
        codes = [
            each
            for each, asked in ((f"C{code[1]}", accept), (code, application))
            if _ASKED.get(asked, (bool(asked), bool(asked)))[refused is not None]
        ]
    return [_framed(_answer(message, each, refused, now_ns, number)) for each in codes]


def _answer(
    message: Message | None, code: str, refused: Refused | None, now_ns: int, number: int
) -> str:
    field, component, *others = message.delimiters if message is not None else tuple("|^~\\&")
    echo = [""] * 20 if message is None else [message.header.raw(i)[:_ECHO_MAX] for i in range(20)]
    version = echo[12] or "2.5"
    header = [
        "MSH", "".join([component, *others]), echo[5], echo[6], echo[3], echo[4], shown(now_ns), "",
        component.join(["ACK", "R01", "ACK"]), f"SLK{now_ns}-{number}", echo[11] or "P", version,
    ]  # fmt: skip
    if echo[18]:
        header += ["", "", "", "", "", echo[18]]
    acknowledged = ["MSA", code, echo[10]]
    lines = [header, acknowledged]
    if refused is not None:
        reason = _plain(refused.reason, field, component, *others)
        acknowledged.append(reason[:_REASON_MAX])
        number_of = component.join([str(refused.number), "", "HL70357"])
        lines.append(["ERR", "", "", number_of, "E", "", "", "", reason])
    return "".join(f"{field.join(line)}\r" for line in lines)


def _plain(text: str, *delimiters: str) -> str:
    """A reason without what would be read as structure."""
    return "".join(sign if sign.isprintable() and sign not in delimiters else " " for sign in text)


def _framed(text: str) -> bytes:
    return START + text.encode("utf-8", "replace") + END + b"\r"
