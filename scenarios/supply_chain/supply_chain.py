"""The scenario ``supply-chain``: scores; its file has the devices and the rule."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from slackwater.scenario import Score
from slackwater.scenarios.from_file import FromFile
from slackwater.scenarios.supply_chain.scoring import score_parcels

FILE: Final = Path(__file__).with_name("supply-chain.toml")


class SupplyChain(FromFile):
    """See ``engine.scenario.RunnableScenario``."""

    def __init__(self) -> None:
        super().__init__(FILE)
        self.what = (
            "Parcels of medicine pass the readers of packer, hubs, depot and shop, whose clocks "
            "disagree and whose links are late. The sites' promise about every parcel is a "
            "constraint (L10 chapter 3): a cooled parcel sells or comes back, an opened one is "
            "finally destroyed, though it is shipped first. So a loss is known before it "
            "happens, and so is its absence."
        )

    def score(self, directory: Path, options: Mapping[str, Any]) -> Score:  # noqa: ARG002 - as given
        return score_parcels(directory)
