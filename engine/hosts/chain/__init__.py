"""The chain of one site: order -> operators -> barrier, and the registry of operators."""

from slackwater.engine.hosts.chain.operators import ChainOutput, ChainSettings, ChunksOf
from slackwater.engine.hosts.chain.site_chain import Chain

__all__ = ["Chain", "ChainOutput", "ChainSettings", "ChunksOf"]
