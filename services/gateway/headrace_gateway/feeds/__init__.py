"""Feeds: a gateway's shared, live views of task logs, read by any number of clients."""

from headrace_gateway.feeds.feed import MOST, Feed, FeedReader
from headrace_gateway.feeds.hub import Feeds
from headrace_gateway.feeds.ring import EntryRenderer, FeedBlock

__all__ = ["MOST", "EntryRenderer", "Feed", "FeedBlock", "FeedReader", "Feeds"]
