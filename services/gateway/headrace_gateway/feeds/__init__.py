"""Feeds: a gateway's shared, live views of task logs, read by any number of clients."""

from headrace_gateway.feeds.feed import MOST, Feed, Reader
from headrace_gateway.feeds.hub import Feeds
from headrace_gateway.feeds.ring import Block, EntryRenderer

__all__ = ["MOST", "Block", "EntryRenderer", "Feed", "Feeds", "Reader"]
