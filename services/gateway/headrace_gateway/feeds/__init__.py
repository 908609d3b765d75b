"""Feeds: a gateway's shared, live views of task logs, read by any number of clients."""

from headrace_gateway.feeds.block import Block, EntryRenderer
from headrace_gateway.feeds.feed import Feed
from headrace_gateway.feeds.hub import Feeds
from headrace_gateway.feeds.reader import MOST, Reader

__all__ = ["MOST", "Block", "EntryRenderer", "Feed", "Feeds", "Reader"]
